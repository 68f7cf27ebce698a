// The transformer: an explicit forward and an explicit backward over planned memory.
//
// Sizes: B sequences of a micro-batch, T positions each, C width, F hidden, G the input of the activation (F, or 2F where
// it is gated), H heads, K width of all keys (C unless heads are grouped), V vocabulary. Linear weights are [out, in].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/slab.h"
#include "kernels/stream.h"
#include "model/family.h"
#include "model/parameters.h"
#include "model/tap.h"

namespace nascent {

class Transformer {
 public:
  // When parameters and activations get their memory: as soon as they are described, or in allocate(), by who wants to
  // know first how much that is.
  enum class Memory { kAtOnce, kLater };

  // dtype: of parameters, activations and gradients (f32 or f64). Throws an input error for sizes that cannot be.
  Transformer(const TransformerSpec& spec, DType dtype, Memory memory = Memory::kAtOnce);

  const TransformerSpec& spec() const { return spec_; }
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  const std::vector<Tap*>& taps() const { return taps_; }

  // Plans activations for micro-batches of B x T tokens, and for the backward where `training`. The listener (may be
  // null) says now which taps it wants, and is shown those in every forward and backward.
  void plan(std::int64_t batch, std::int64_t sequence, bool training, Listener* listener);
  // After plan, for Memory::kLater alone.
  void allocate();
  std::int64_t batch() const { return batch_; }
  std::int64_t sequence() const { return sequence_; }
  std::size_t activation_bytes() const { return activations_.bytes(); }

  // The network up to its final norm. tokens [B, T] i32, ids below V, must stay until the backward.
  void forward(Stream& s, View tokens);

  // After forward. targets [B, T] i32, kIgnored where nothing is to be predicted. Losses [B, T] in nats, valid until
  // the next call.
  View losses(Stream& s, View targets);
  // The same and the gradient of scale * (sum of losses), added to the parameters' gradients.
  View backward(Stream& s, View targets, double scale);

  // After forward: logits [n, V] of positions [first, first + n) of the micro-batch, counted over B T.
  void logits(Stream& s, Tensor out, std::int64_t first) const;

  // Switches the listener off and on (steps on which no probe has work).
  void listen(bool on) { listening_ = on; }
  void check_guards() const { activations_.check_guards(); }

 private:
  struct Norm {
    const Weight *weight = nullptr, *bias = nullptr;  // null where there is none
    Tensor mean, rstd;                                // [B, T]
  };
  struct Linear {
    const Weight *weight = nullptr, *bias = nullptr;  // bias: null where there is none
  };
  struct Block {
    Norm ln1, ln2, q_norm, k_norm;     // ln1 belongs to attention and ln2 to the MLP, wherever they stand
    Linear qkv, out, mlp_in, mlp_out;  // [C + 2K, C], [C, C], [G, C], [C, F]
    Tensor attn_in, qkv_product;       // [B, T, C]: what attention reads; [B, T, C + 2K]: before clipping
    Tensor q, k, q_normed, k_normed;   // [B, T, C], [B, T, K], and the same
    Tensor qkv_value, z, lse;          // [B, T, C + 2K], [B, T, C], [B, H, T]
    Tensor attn_raw, attn_out_value;   // [B, T, C] twice: before a norm after attention, and behind it
    Tensor resid_mid, mlp_reads;       // [B, T, C] twice
    Tensor pre, post;                  // [B, T, G], [B, T, F]
    Tensor mlp_raw, mlp_out_value;     // as of attention
    Tensor resid_post;                 // [B, T, C]
    struct {
      Tap resid_pre, ln1, q_norm, k_norm, attn_out, resid_mid, ln2, post, mlp_out, resid_post;
    } tap;
  };
  // Gradients on their way down; one buffer serves every block.
  struct Gradients {
    Tensor resid, branch, other_branch, hidden, pre;  // [B, T, C] three times, [B, T, F], [B, T, G]
    Tensor qkv, q, k;                                 // [B, T, C + 2K], [B, T, C], [B, T, K]
  };

  void describe_parameters(DType dtype);
  void describe_taps();
  void place_activations(bool training);
  void allocate_activations();
  const Tensor& resid_pre(std::size_t block) const { return block == 0 ? resid_start_ : blocks_[block - 1].resid_post; }
  const Tensor& resid_final() const { return blocks_.back().resid_post; }

  // A layer's own forward and backward: the ops, with its parameters filled in.
  void forward(Stream& s, Tensor y, const Linear& l, View x) const;
  void backward(Stream& s, Tensor dx, const Linear& l, View dy, View x) const;
  void forward(Stream& s, Tensor y, const Norm& n, View x) const;
  void backward(Stream& s, Tensor dx, const Norm& n, View dy, View x, View dresidual) const;
  void attention(Stream& s, Block& b, View x);
  void attention_backward(Stream& s, Block& b, Tensor dx);
  void queries_keys_values(Stream& s, Block& b);
  void queries_keys_values_backward(Stream& s, Block& b);
  void mlp(Stream& s, Block& b, View x);
  void mlp_backward(Stream& s, Block& b, Tensor dx);
  void add_to_stream(Stream& s, const Norm& n, View x, View dx);
  void head_backward(Stream& s, View targets, double scale);
  AttentionHeads heads() const { return {static_cast<int>(spec_.heads), static_cast<int>(spec_.groups())}; }
  bool post_norm() const { return spec_.norm_place == NormPlace::kPost; }
  AttentionMask mask() const { return {}; }
  void activate(Stream& s, Tensor y, View x) const;
  void activate_backward(Stream& s, Tensor dx, View dy, View x) const;
  void show(Stream& s, const Tap& tap, View value) const;
  void show_grad(Stream& s, const Tap& tap, View grad) const;

  TransformerSpec spec_;
  DType dtype_;
  Memory memory_;
  Parameters parameters_;
  Parameter *embed_ = nullptr, *pos_embed_ = nullptr, *unembed_ = nullptr;  // unembed_ is embed_ where they are tied
  std::vector<Block> blocks_;
  Norm ln_final_;
  Tap embed_tap_, ln_final_tap_;
  std::vector<Tap*> taps_;

  Slab activations_{"activations"};
  Tensor embed_value_, resid_start_, ln_final_normalized_, losses_;
  Gradients d_;
  View tokens_;
  std::int64_t batch_ = 0, sequence_ = 0;
  Listener* listener_ = nullptr;
  bool listening_ = true;
};

}  // namespace nascent
