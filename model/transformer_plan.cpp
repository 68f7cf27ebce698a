// What a transformer is made of: its parameters, its taps, and the memory of a micro-batch.
#include "kernels/error.h"
#include "model/transformer.h"

namespace nascent {
namespace {

std::string in_layer(const std::string& pattern, std::size_t layer) {
  return fmt::format(fmt::runtime(pattern), layer);
}

}  // namespace

Transformer::Transformer(const TransformerSpec& spec, DType dtype, Memory memory)
    : spec_(spec), dtype_(dtype), memory_(memory) {
  spec_.check();
  blocks_.resize(static_cast<std::size_t>(spec_.layers));
  describe_parameters(dtype);
  describe_taps();
  if (memory_ == Memory::kAtOnce) parameters_.allocate();
}

void Transformer::describe_parameters(DType dtype) {
  const Family& family = family_of(spec_.family);
  const std::int64_t c = spec_.width, f = spec_.hidden, k = spec_.key_width();
  std::size_t layer = 0;
  const auto describe = [&](const std::string& role, bool decay, double std, double constant = 0) {
    const TensorName& name = family.tensor(role);
    Parameter p;
    p.name = in_layer(name.file, layer);
    p.std = std;
    p.constant = constant;
    p.decay = decay;
    p.layout = {name.layout, spec_.heads};
    p.alias = name.alias;
    return p;
  };
  // Weight decay applies to weights and embeddings; not to biases and norms.
  const auto add = [&](const std::string& role, Shape shape, double std, double constant = 0) {
    return &parameters_.add(describe(role, shape.rank() > 1, std, constant), dtype, shape);
  };
  const auto norm = [&](const std::string& role, std::int64_t width) {
    Norm n{};
    if (spec_.norm != NormKind::kLayerPlain) n.weight = add(role + ".weight", {width}, 0, 1);
    if (spec_.norm == NormKind::kLayer) n.bias = add(role + ".bias", {width}, 0);
    return n;
  };
  const auto linear = [&](const std::string& role, std::int64_t out, std::int64_t in, double std) {
    Linear l{add(role + ".weight", {out, in}, std), nullptr};
    if (spec_.biases) l.bias = add(role + ".bias", {out}, 0);
    return l;
  };
  // One product with weights of several names, without biases.
  const auto stack = [&](const std::vector<std::string>& roles, const std::vector<std::int64_t>& outs) {
    std::vector<Parameter> parts;
    for (const std::string& role : roles) parts.push_back(describe(role, true, spec_.init_std));
    return Linear{&parameters_.add_stack(std::move(parts), dtype, outs, c), nullptr};
  };

  embed_ = add("embed.weight", {spec_.vocab, c}, spec_.init_std);
  if (spec_.positions == Positions::kLearned) pos_embed_ = add("pos_embed.weight", {spec_.context, c}, spec_.init_std);
  for (layer = 0; layer < blocks_.size(); ++layer) {
    Block& b = blocks_[layer];
    const std::string attn = "blocks.{}.attn.", mlp = "blocks.{}.mlp.";
    b.ln1 = norm("blocks.{}.ln1", c);
    if (family.has(attn + "q.weight")) {
      b.qkv = stack({attn + "q.weight", attn + "k.weight", attn + "v.weight"}, {c, k, k});
    } else {
      b.qkv = linear("blocks.{}.attn.qkv", c + 2 * k, c, spec_.init_std);
    }
    if (spec_.qk_norm) {
      b.q_norm = norm("blocks.{}.attn.q_norm", c);
      b.k_norm = norm("blocks.{}.attn.k_norm", k);
    }
    b.out = linear("blocks.{}.attn.out", c, c, spec_.init_residual_std);
    b.ln2 = norm("blocks.{}.ln2", c);
    if (spec_.gated()) {
      b.mlp_in = stack({mlp + "gate.weight", mlp + "in.weight"}, {f, f});
    } else {
      b.mlp_in = linear("blocks.{}.mlp.in", f, c, spec_.init_std);
    }
    b.mlp_out = linear("blocks.{}.mlp.out", c, f, spec_.init_residual_std);
  }
  ln_final_ = norm("ln_final", c);
  unembed_ = spec_.tied ? embed_ : add("unembed.weight", {spec_.vocab, c}, spec_.init_std);
}

void Transformer::describe_taps() {
  const auto name = [&](Tap& tap, std::string text, std::int64_t width) {
    tap.name = std::move(text);
    tap.index = static_cast<int>(taps_.size());
    tap.width = width;
    taps_.push_back(&tap);
  };
  name(embed_tap_, "embed", spec_.width);
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    auto& tap = blocks_[l].tap;
    const std::string block = fmt::format("blocks.{}.", l);
    name(tap.resid_pre, block + "resid_pre", spec_.width);
    if (!post_norm()) name(tap.ln1, block + "ln1.normalized", spec_.width);
    if (spec_.qk_norm) {
      name(tap.q_norm, block + "attn.q_norm.normalized", spec_.width);
      name(tap.k_norm, block + "attn.k_norm.normalized", spec_.key_width());
    }
    name(tap.attn_out, block + "attn_out", spec_.width);
    if (!spec_.parallel) name(tap.resid_mid, block + "resid_mid", spec_.width);
    if (!post_norm()) name(tap.ln2, block + "ln2.normalized", spec_.width);
    name(tap.post, block + "mlp.post", spec_.hidden);
    name(tap.mlp_out, block + "mlp_out", spec_.width);
    name(tap.resid_post, block + "resid_post", spec_.width);
  }
  name(ln_final_tap_, "ln_final.normalized", spec_.width);
}

void Transformer::plan(std::int64_t batch, std::int64_t sequence, bool training, Listener* listener) {
  if (batch_ != 0) throw machine_error("Transformer::plan: planned twice");
  if (sequence > spec_.context)
    throw input_error("sequence of {} tokens, but model.context = {}", sequence, spec_.context);
  batch_ = batch;
  sequence_ = sequence;
  listener_ = listener;
  for (Tap* tap : taps_) tap->wanted = listener && listener->wants(tap->name);
  place_activations(training);
  if (memory_ == Memory::kAtOnce) allocate_activations();
}

void Transformer::place_activations(bool training) {
  const std::int64_t b = batch_, t = sequence_, c = spec_.width, f = spec_.hidden, k = spec_.key_width();
  const std::int64_t g = spec_.gated() ? 2 * f : f;
  const auto place = [&](Tensor& x, const std::string& name, Shape shape) {
    activations_.place(x, name, dtype_, shape);
  };
  const auto place_norm = [&](Norm& n, const std::string& name) {
    if (spec_.norm != NormKind::kRms) place(n.mean, name + ".mean", {b, t});
    place(n.rstd, name + ".rstd", {b, t});
  };
  if (pos_embed_ && embed_tap_.wanted) place(embed_value_, "embed", {b, t, c});
  place(resid_start_, "resid_start", {b, t, c});
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    Block& block = blocks_[l];
    const std::string name = fmt::format("blocks.{}.", l);
    if (!post_norm()) place(block.attn_in, name + "ln1.normalized", {b, t, c});
    place_norm(block.ln1, name + "ln1");
    if (spec_.clip_qkv > 0) place(block.qkv_product, name + "qkv_product", {b, t, c + 2 * k});
    place(block.qkv_value, name + "qkv", {b, t, c + 2 * k});
    if (spec_.qk_norm) {
      place(block.q, name + "q", {b, t, c});
      place(block.k, name + "k", {b, t, k});
      place(block.q_normed, name + "q_norm.normalized", {b, t, c});
      place(block.k_normed, name + "k_norm.normalized", {b, t, k});
      place_norm(block.q_norm, name + "q_norm");
      place_norm(block.k_norm, name + "k_norm");
    }
    place(block.z, name + "z", {b, t, c});
    place(block.lse, name + "lse", {b, spec_.heads, t});
    if (post_norm()) place(block.attn_raw, name + "attn_raw", {b, t, c});
    if (spec_.parallel || block.tap.attn_out.wanted) place(block.attn_out_value, name + "attn_out", {b, t, c});
    if (!spec_.parallel) place(block.resid_mid, name + "resid_mid", {b, t, c});
    if (!post_norm()) place(block.mlp_reads, name + "ln2.normalized", {b, t, c});
    place_norm(block.ln2, name + "ln2");
    place(block.pre, name + "mlp.pre", {b, t, g});
    place(block.post, name + "mlp.post", {b, t, f});
    if (post_norm()) place(block.mlp_raw, name + "mlp_raw", {b, t, c});
    if (block.tap.mlp_out.wanted) place(block.mlp_out_value, name + "mlp_out", {b, t, c});
    place(block.resid_post, name + "resid_post", {b, t, c});
  }
  place(ln_final_normalized_, "ln_final.normalized", {b, t, c});
  place_norm(ln_final_, "ln_final");
  place(losses_, "losses", {b, t});
  if (training) {
    place(d_.resid, "gradient.resid", {b, t, c});
    place(d_.branch, "gradient.branch", {b, t, c});
    if (spec_.parallel || post_norm()) place(d_.other_branch, "gradient.other_branch", {b, t, c});
    place(d_.hidden, "gradient.hidden", {b, t, f});
    if (spec_.gated()) place(d_.pre, "gradient.pre", {b, t, g});
    place(d_.qkv, "gradient.qkv", {b, t, c + 2 * k});
    if (spec_.qk_norm) {
      place(d_.q, "gradient.q", {b, t, c});
      place(d_.k, "gradient.k", {b, t, k});
    }
  }
}

void Transformer::allocate() {
  parameters_.allocate();
  allocate_activations();
}

void Transformer::allocate_activations() {
  activations_.allocate(true);
  // What nobody wants is computed where its sum with the residual stream will stand.
  if (!pos_embed_ || !embed_tap_.wanted) embed_value_ = resid_start_;
  if (!spec_.gated()) d_.pre = d_.hidden;
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    Block& block = blocks_[l];
    if (!spec_.parallel && !block.tap.attn_out.wanted) block.attn_out_value = block.resid_mid;
    if (!block.tap.mlp_out.wanted) block.mlp_out_value = block.resid_post;
    if (spec_.clip_qkv == 0) block.qkv_product = block.qkv_value;
    if (post_norm()) {
      block.attn_in = resid_pre(l);
      block.mlp_reads = block.resid_mid;
    } else {
      block.attn_raw = block.attn_out_value;
      block.mlp_raw = block.mlp_out_value;
    }
  }
}

}  // namespace nascent
