#include "model/transformer.h"

#include "kernels/add.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "kernels/error.h"
#include "kernels/gelu.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/require.h"
#include "kernels/rotary.h"

namespace nascent {

void Transformer::forward(Stream& s, View tokens) {
  require_shape("Transformer::forward", "tokens", tokens, {batch_, sequence_});
  tokens_ = tokens;
  s.enter("embed");
  embedding_forward(s, embed_value_, tokens, embed_->value);
  show(s, embed_tap_, embed_value_);
  if (pos_embed_) position_forward(s, resid_start_, embed_value_, pos_embed_->value);

  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    Block& b = blocks_[l];
    s.enter("blocks", static_cast<std::int64_t>(l));
    show(s, b.tap.resid_pre, resid_pre(l));
    attention(s, b, resid_pre(l));
    if (spec_.parallel) {
      mlp(s, b, resid_pre(l));
      add_forward(s, b.resid_post, b.mlp_out_value, b.attn_out_value);
      add_forward(s, b.resid_post, b.resid_post, resid_pre(l));
    } else {
      add_forward(s, b.resid_mid, b.attn_out_value, resid_pre(l));
      show(s, b.tap.resid_mid, b.resid_mid);
      mlp(s, b, b.resid_mid);
      add_forward(s, b.resid_post, b.mlp_out_value, b.resid_mid);
    }
    show(s, b.tap.resid_post, b.resid_post);
  }

  s.enter("ln_final");
  forward(s, ln_final_normalized_, ln_final_, resid_final());
  show(s, ln_final_tap_, ln_final_normalized_);
}

// attn_out = attention of the norm of x
void Transformer::attention(Stream& s, Block& b, View x) {
  forward(s, b.ln1_normalized, b.ln1, x);
  show(s, b.tap.ln1, b.ln1_normalized);
  forward(s, b.qkv_value, b.qkv, b.ln1_normalized);
  if (spec_.positions == Positions::kRotary) rotary_forward(s, b.qkv_value, b.qkv_value, heads(), spec_.rotary());
  attention_forward(s, b.z, b.lse, b.qkv_value, heads(), mask());
  forward(s, b.attn_out_value, b.out, b.z);
  show(s, b.tap.attn_out, b.attn_out_value);
}

// mlp_out = the MLP of the norm of x
void Transformer::mlp(Stream& s, Block& b, View x) {
  forward(s, b.ln2_normalized, b.ln2, x);
  show(s, b.tap.ln2, b.ln2_normalized);
  forward(s, b.pre, b.mlp_in, b.ln2_normalized);
  activate(s, b.post, b.pre);
  show(s, b.tap.post, b.post);
  forward(s, b.mlp_out_value, b.mlp_out, b.post);
  show(s, b.tap.mlp_out, b.mlp_out_value);
}

View Transformer::backward(Stream& s, View targets, double scale) {
  require_shape("Transformer::backward", "targets", targets, {batch_, sequence_});
  head_backward(s, targets.reshaped({batch_ * sequence_}), scale);
  if (listener_ && listening_) listener_->on_losses(s, losses_, targets);
  s.enter("ln_final");
  show_grad(s, ln_final_tap_, d_.branch);
  backward(s, d_.resid, ln_final_, d_.branch, resid_final(), {});

  // d_.resid is the gradient of the residual stream at the place that the walk down has reached.
  for (std::size_t l = blocks_.size(); l-- > 0;) {
    Block& b = blocks_[l];
    s.enter("blocks", static_cast<std::int64_t>(l));
    show_grad(s, b.tap.resid_post, d_.resid);
    if (spec_.parallel) {
      mlp_backward(s, b, d_.branch);
      attention_backward(s, b, d_.other_branch);
      backward(s, d_.resid, b.ln2, d_.branch, resid_pre(l), d_.resid);
      backward(s, d_.resid, b.ln1, d_.other_branch, resid_pre(l), d_.resid);
    } else {
      mlp_backward(s, b, d_.branch);
      backward(s, d_.resid, b.ln2, d_.branch, b.resid_mid, d_.resid);
      show_grad(s, b.tap.resid_mid, d_.resid);
      attention_backward(s, b, d_.branch);
      backward(s, d_.resid, b.ln1, d_.branch, resid_pre(l), d_.resid);
    }
    show_grad(s, b.tap.resid_pre, d_.resid);
  }

  s.enter("embed");
  if (pos_embed_) position_backward(s, pos_embed_->grad, d_.resid);
  show_grad(s, embed_tap_, d_.resid);
  embedding_backward(s, embed_->grad, d_.resid, tokens_);
  return losses_;
}

// dln = the gradient of the MLP's normed input, from d_.resid, that of its output.
void Transformer::mlp_backward(Stream& s, Block& b, Tensor dln) {
  show_grad(s, b.tap.mlp_out, d_.resid);
  backward(s, d_.hidden, b.mlp_out, d_.resid, b.post);
  show_grad(s, b.tap.post, d_.hidden);
  activate_backward(s, d_.hidden, d_.hidden, b.pre);
  backward(s, dln, b.mlp_in, d_.hidden, b.ln2_normalized);
  show_grad(s, b.tap.ln2, dln);
}

// The same of attention.
void Transformer::attention_backward(Stream& s, Block& b, Tensor dln) {
  show_grad(s, b.tap.attn_out, d_.resid);
  backward(s, dln, b.out, d_.resid, b.z);  // of z, until the gradient of q, k and v is known
  nascent::attention_backward(s, d_.qkv, dln, b.z, b.lse, b.qkv_value, heads(), mask());
  if (spec_.positions == Positions::kRotary) rotary_backward(s, d_.qkv, d_.qkv, heads(), spec_.rotary());
  backward(s, dln, b.qkv, d_.qkv, b.ln1_normalized);
  show_grad(s, b.tap.ln1, dln);
}

// Losses, the gradient of the final norm's output in d_.branch, and the output matrix's gradient.
void Transformer::head_backward(Stream& s, View targets, double scale) {
  const std::int64_t n = batch_ * sequence_, c = spec_.width;
  const Tensor losses = losses_.reshaped({n}), dh = d_.branch.reshaped({n, c});
  const View h = ln_final_normalized_.reshaped({n, c});
  s.enter("head");
  BlockListener on_block;
  if (listener_ && listening_) {
    on_block = [&](std::int64_t first, View logits, View dlogits) { listener_->on_block(s, first, logits, dlogits); };
  }
  linear_cross_entropy_forward_backward(s, losses, dh, unembed_->grad, h, unembed_->value, targets, scale, on_block);
}

View Transformer::losses(Stream& s, View targets) {
  require_shape("Transformer::losses", "targets", targets, {batch_, sequence_});
  const std::int64_t n = batch_ * sequence_;
  s.enter("head");
  linear_cross_entropy_forward(s, losses_.reshaped({n}), ln_final_normalized_.reshaped({n, spec_.width}),
                               unembed_->value, targets.reshaped({n}));
  return losses_;
}

void Transformer::logits(Stream& s, Tensor out, std::int64_t first) const {
  const View h = ln_final_normalized_.reshaped({batch_ * sequence_, spec_.width}).slice(first, out.rows());
  linear_forward(s, out, h, unembed_->value, {});
}

void Transformer::forward(Stream& s, Tensor y, const Linear& l, View x) const {
  linear_forward(s, y, x, l.weight->value, l.bias->value);
}

void Transformer::backward(Stream& s, Tensor dx, const Linear& l, View dy, View x) const {
  linear_backward(s, dx, l.weight->grad, l.bias->grad, dy, x, l.weight->value);
}

void Transformer::forward(Stream& s, Tensor y, const Norm& n, View x) const {
  layernorm_forward(s, y, n.mean, n.rstd, x, n.weight->value, n.bias->value, spec_.norm_eps);
}

void Transformer::backward(Stream& s, Tensor dx, const Norm& n, View dy, View x, View dresidual) const {
  layernorm_backward(s, dx, n.weight->grad, n.bias->grad, dy, x, n.mean, n.rstd, n.weight->value, dresidual);
}

void Transformer::activate(Stream& s, Tensor y, View x) const {
  spec_.activation == Activation::kGeluTanh ? gelu_tanh_forward(s, y, x) : gelu_erf_forward(s, y, x);
}

void Transformer::activate_backward(Stream& s, Tensor dx, View dy, View x) const {
  spec_.activation == Activation::kGeluTanh ? gelu_tanh_backward(s, dx, dy, x) : gelu_erf_backward(s, dx, dy, x);
}

void Transformer::show(Stream& s, const Tap& tap, View value) const {
  if (tap.wanted && listening_) listener_->on_value(s, tap, value);
}

void Transformer::show_grad(Stream& s, const Tap& tap, View grad) const {
  if (tap.wanted && listening_) listener_->on_grad(s, tap, grad);
}

}  // namespace nascent
