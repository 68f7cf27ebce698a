#include "model/transformer.h"

#include "kernels/add.h"
#include "kernels/attention.h"
#include "kernels/clip.h"
#include "kernels/columns.h"
#include "kernels/embedding.h"
#include "kernels/error.h"
#include "kernels/gelu.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/require.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/silu_gate.h"

namespace nascent {
namespace {

// Of a part that may not be there.
Tensor value_of(const Weight* w) { return w ? w->value : Tensor(); }
Tensor grad_of(const Weight* w) { return w ? w->grad : Tensor(); }

}  // namespace

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

// attn_out = attention of the norm of x, or the norm of attention of x
void Transformer::attention(Stream& s, Block& b, View x) {
  if (!post_norm()) forward(s, b.attn_in, b.ln1, x);
  show(s, b.tap.ln1, b.attn_in);
  queries_keys_values(s, b);
  attention_forward(s, b.z, b.lse, b.qkv_value, heads(), mask());
  forward(s, b.attn_raw, b.out, b.z);
  if (post_norm()) forward(s, b.attn_out_value, b.ln1, b.attn_raw);
  show(s, b.tap.attn_out, b.attn_out_value);
}

void Transformer::queries_keys_values(Stream& s, Block& b) {
  forward(s, b.qkv_product, b.qkv, b.attn_in);
  if (spec_.clip_qkv > 0) clip_forward(s, b.qkv_value, b.qkv_product, spec_.clip_qkv);
  if (spec_.qk_norm) {
    take_columns(s, b.q, b.qkv_value, 0);
    take_columns(s, b.k, b.qkv_value, spec_.width);
    forward(s, b.q_normed, b.q_norm, b.q);
    forward(s, b.k_normed, b.k_norm, b.k);
    show(s, b.tap.q_norm, b.q_normed);
    show(s, b.tap.k_norm, b.k_normed);
    put_columns(s, b.qkv_value, b.q_normed, 0);
    put_columns(s, b.qkv_value, b.k_normed, spec_.width);
  }
  if (spec_.positions == Positions::kRotary) rotary_forward(s, b.qkv_value, b.qkv_value, heads(), spec_.rotary());
}

// mlp_out = the MLP of the norm of x, or the norm of the MLP of x
void Transformer::mlp(Stream& s, Block& b, View x) {
  if (!post_norm()) forward(s, b.mlp_reads, b.ln2, x);
  show(s, b.tap.ln2, b.mlp_reads);
  forward(s, b.pre, b.mlp_in, b.mlp_reads);
  activate(s, b.post, b.pre);
  show(s, b.tap.post, b.post);
  forward(s, b.mlp_raw, b.mlp_out, b.post);
  if (post_norm()) forward(s, b.mlp_out_value, b.ln2, b.mlp_raw);
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
      add_to_stream(s, b.ln2, b.resid_mid, d_.branch);
      show_grad(s, b.tap.resid_mid, d_.resid);
      attention_backward(s, b, d_.branch);
      add_to_stream(s, b.ln1, resid_pre(l), d_.branch);
    }
    show_grad(s, b.tap.resid_pre, d_.resid);
  }

  s.enter("embed");
  if (pos_embed_) position_backward(s, pos_embed_->grad, d_.resid);
  show_grad(s, embed_tap_, d_.resid);
  embedding_backward(s, embed_->grad, d_.resid, tokens_);
  return losses_;
}

// Adds to d_.resid what comes back through attention or MLP: dx, the gradient of what it read, the norm of x or x itself.
void Transformer::add_to_stream(Stream& s, const Norm& n, View x, View dx) {
  if (post_norm()) {
    add_forward(s, d_.resid, d_.resid, dx);
  } else {
    backward(s, d_.resid, n, dx, x, d_.resid);
  }
}

// dx = the gradient of what the MLP read, from d_.resid, that of what it added to the stream.
void Transformer::mlp_backward(Stream& s, Block& b, Tensor dx) {
  show_grad(s, b.tap.mlp_out, d_.resid);
  if (post_norm()) backward(s, d_.other_branch, b.ln2, d_.resid, b.mlp_raw, {});
  backward(s, d_.hidden, b.mlp_out, post_norm() ? d_.other_branch : d_.resid, b.post);
  show_grad(s, b.tap.post, d_.hidden);
  activate_backward(s, d_.pre, d_.hidden, b.pre);
  backward(s, dx, b.mlp_in, d_.pre, b.mlp_reads);
  show_grad(s, b.tap.ln2, dx);
}

// The same of attention.
void Transformer::attention_backward(Stream& s, Block& b, Tensor dx) {
  show_grad(s, b.tap.attn_out, d_.resid);
  if (post_norm()) backward(s, d_.other_branch, b.ln1, d_.resid, b.attn_raw, {});
  const Tensor dz = dx;  // the same memory, until the gradient of q, k and v is known
  backward(s, dz, b.out, post_norm() ? d_.other_branch : d_.resid, b.z);
  nascent::attention_backward(s, d_.qkv, dz, b.z, b.lse, b.qkv_value, heads(), mask());
  queries_keys_values_backward(s, b);
  backward(s, dx, b.qkv, d_.qkv, b.attn_in);
  show_grad(s, b.tap.ln1, dx);
}

// d_.qkv: from the gradient of what attention used to that of the product with the weights.
void Transformer::queries_keys_values_backward(Stream& s, Block& b) {
  if (spec_.positions == Positions::kRotary) rotary_backward(s, d_.qkv, d_.qkv, heads(), spec_.rotary());
  if (spec_.qk_norm) {
    take_columns(s, d_.q, d_.qkv, 0);
    take_columns(s, d_.k, d_.qkv, spec_.width);
    show_grad(s, b.tap.k_norm, d_.k);
    show_grad(s, b.tap.q_norm, d_.q);
    backward(s, d_.q, b.q_norm, d_.q, b.q, {});
    backward(s, d_.k, b.k_norm, d_.k, b.k, {});
    put_columns(s, d_.qkv, d_.q, 0);
    put_columns(s, d_.qkv, d_.k, spec_.width);
  }
  if (spec_.clip_qkv > 0) clip_backward(s, d_.qkv, d_.qkv, b.qkv_product, spec_.clip_qkv);
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
  linear_forward(s, y, x, l.weight->value, value_of(l.bias));
}

void Transformer::backward(Stream& s, Tensor dx, const Linear& l, View dy, View x) const {
  linear_backward(s, dx, l.weight->grad, grad_of(l.bias), dy, x, l.weight->value);
}

void Transformer::forward(Stream& s, Tensor y, const Norm& n, View x) const {
  if (spec_.norm == NormKind::kRms) {
    rmsnorm_forward(s, y, n.rstd, x, n.weight->value, spec_.norm_eps);
  } else {
    layernorm_forward(s, y, n.mean, n.rstd, x, value_of(n.weight), value_of(n.bias), spec_.norm_eps);
  }
}

void Transformer::backward(Stream& s, Tensor dx, const Norm& n, View dy, View x, View dresidual) const {
  if (spec_.norm == NormKind::kRms) {
    rmsnorm_backward(s, dx, n.weight->grad, dy, x, n.rstd, n.weight->value, dresidual);
  } else {
    layernorm_backward(s, dx, grad_of(n.weight), grad_of(n.bias), dy, x, n.mean, n.rstd, value_of(n.weight), dresidual);
  }
}

void Transformer::activate(Stream& s, Tensor y, View x) const {
  switch (spec_.activation) {
    case Activation::kGeluTanh:
      return gelu_tanh_forward(s, y, x);
    case Activation::kGeluErf:
      return gelu_erf_forward(s, y, x);
    case Activation::kSwiGlu:
      return silu_gate_forward(s, y, x);
  }
}

void Transformer::activate_backward(Stream& s, Tensor dx, View dy, View x) const {
  switch (spec_.activation) {
    case Activation::kGeluTanh:
      return gelu_tanh_backward(s, dx, dy, x);
    case Activation::kGeluErf:
      return gelu_erf_backward(s, dx, dy, x);
    case Activation::kSwiGlu:
      return silu_gate_backward(s, dx, dy, x);
  }
}

void Transformer::show(Stream& s, const Tap& tap, View value) const {
  if (tap.wanted && listening_) listener_->on_value(s, tap, value);
}

void Transformer::show_grad(Stream& s, const Tap& tap, View grad) const {
  if (tap.wanted && listening_) listener_->on_grad(s, tap, grad);
}

}  // namespace nascent
