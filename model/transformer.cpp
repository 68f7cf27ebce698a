#include "model/transformer.h"

#include "kernels/add.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "kernels/error.h"
#include "kernels/gelu.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/require.h"

namespace nascent {

void Transformer::forward(Stream& s, View tokens) {
  require_shape("Transformer::forward", "tokens", tokens, {batch_, sequence_});
  tokens_ = tokens;
  embedding_forward(s, embed_value_, tokens, embed_->value);
  show(s, embed_tap_, embed_value_);
  position_forward(s, resid_start_, embed_value_, pos_embed_->value);

  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    Block& b = blocks_[l];
    show(s, b.tap.resid_pre, resid_pre(l));
    norm(s, b.ln1_normalized, b.ln1, resid_pre(l));
    show(s, b.tap.ln1, b.ln1_normalized);
    linear_forward(s, b.qkv_value, b.ln1_normalized, b.qkv.weight->value, b.qkv.bias->value);
    attention_forward(s, b.z, b.lse, b.qkv_value, static_cast<int>(spec_.heads));
    linear_forward(s, b.attn_out_value, b.z, b.out.weight->value, b.out.bias->value);
    show(s, b.tap.attn_out, b.attn_out_value);
    add_forward(s, b.resid_mid, b.attn_out_value, resid_pre(l));
    show(s, b.tap.resid_mid, b.resid_mid);

    norm(s, b.ln2_normalized, b.ln2, b.resid_mid);
    show(s, b.tap.ln2, b.ln2_normalized);
    linear_forward(s, b.pre, b.ln2_normalized, b.mlp_in.weight->value, b.mlp_in.bias->value);
    activate(s, b.post, b.pre);
    show(s, b.tap.post, b.post);
    linear_forward(s, b.mlp_out_value, b.post, b.mlp_out.weight->value, b.mlp_out.bias->value);
    show(s, b.tap.mlp_out, b.mlp_out_value);
    add_forward(s, b.resid_post, b.mlp_out_value, b.resid_mid);
    show(s, b.tap.resid_post, b.resid_post);
  }

  norm(s, ln_final_normalized_, ln_final_, resid_final());
  show(s, ln_final_tap_, ln_final_normalized_);
}

View Transformer::backward(Stream& s, View targets, double scale) {
  require_shape("Transformer::backward", "targets", targets, {batch_, sequence_});
  BlockListener on_block;
  if (listener_ && listening_) on_block = [&](std::int64_t first, View l, View dl) { listener_->on_block(s, first, l, dl); };
  const std::int64_t n = batch_ * sequence_, c = spec_.width;
  linear_cross_entropy_forward_backward(s, losses_.reshaped({n}), d_.branch.reshaped({n, c}), embed_->grad,
                                        ln_final_normalized_.reshaped({n, c}), embed_->value, targets.reshaped({n}), scale, on_block);
  if (listener_ && listening_) listener_->on_losses(s, losses_, targets);
  show_grad(s, ln_final_tap_, d_.branch);
  norm_backward(s, d_.resid, ln_final_, d_.branch, resid_final(), {});

  // d_.resid is the gradient of the residual stream at the place that the walk down has reached.
  for (std::size_t l = blocks_.size(); l-- > 0;) {
    Block& b = blocks_[l];
    show_grad(s, b.tap.resid_post, d_.resid);
    show_grad(s, b.tap.mlp_out, d_.resid);
    linear_backward(s, d_.hidden, b.mlp_out.weight->grad, b.mlp_out.bias->grad, d_.resid, b.post, b.mlp_out.weight->value);
    show_grad(s, b.tap.post, d_.hidden);
    activate_backward(s, d_.hidden, d_.hidden, b.pre);
    linear_backward(s, d_.branch, b.mlp_in.weight->grad, b.mlp_in.bias->grad, d_.hidden, b.ln2_normalized, b.mlp_in.weight->value);
    show_grad(s, b.tap.ln2, d_.branch);
    norm_backward(s, d_.resid, b.ln2, d_.branch, b.resid_mid, d_.resid);

    show_grad(s, b.tap.resid_mid, d_.resid);
    show_grad(s, b.tap.attn_out, d_.resid);
    linear_backward(s, d_.branch, b.out.weight->grad, b.out.bias->grad, d_.resid, b.z, b.out.weight->value);
    attention_backward(s, d_.qkv, d_.branch, b.z, b.lse, b.qkv_value, static_cast<int>(spec_.heads));
    linear_backward(s, d_.branch, b.qkv.weight->grad, b.qkv.bias->grad, d_.qkv, b.ln1_normalized, b.qkv.weight->value);
    show_grad(s, b.tap.ln1, d_.branch);
    norm_backward(s, d_.resid, b.ln1, d_.branch, resid_pre(l), d_.resid);
    show_grad(s, b.tap.resid_pre, d_.resid);
  }

  position_backward(s, pos_embed_->grad, d_.resid);
  show_grad(s, embed_tap_, d_.resid);
  embedding_backward(s, embed_->grad, d_.resid, tokens_);
  return losses_;
}

View Transformer::losses(Stream& s, View targets) {
  require_shape("Transformer::losses", "targets", targets, {batch_, sequence_});
  const std::int64_t n = batch_ * sequence_;
  linear_cross_entropy_forward(s, losses_.reshaped({n}), ln_final_normalized_.reshaped({n, spec_.width}), embed_->value,
                               targets.reshaped({n}));
  return losses_;
}

void Transformer::logits(Stream& s, Tensor out, std::int64_t first) const {
  const View h = ln_final_normalized_.reshaped({batch_ * sequence_, spec_.width}).slice(first, out.rows());
  linear_forward(s, out, h, embed_->value, {});
}

void Transformer::norm(Stream& s, Tensor y, Norm& n, View x) const {
  layernorm_forward(s, y, n.mean, n.rstd, x, n.weight->value, n.bias->value, spec_.norm_eps);
}

void Transformer::norm_backward(Stream& s, Tensor dx, const Norm& n, View dy, View x, View dresidual) const {
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
