"""Makes llama_*, olmo_*, olmo2_*.safetensors: tiny random models of Llama's kind as Hugging Face and PyTorch compute them.

    python3 -m venv venv && venv/bin/pip install torch==2.15.* transformers==5.24.* numpy safetensors
    venv/bin/python tests/golden/make_llama.py

    llama_grouped   6 heads that share 2 of keys and values; lm_head.weight of its own
    llama_tied      3 heads of each; lm_head.weight is model.embed_tokens.weight: once, both uses in its gradient
    olmo_clipped    layer norms without parameters; queries, keys and values clipped, about a fifth of them; 6 heads on 3
    olmo2_grouped   norms after attention and MLP, and over all queries and all keys; 6 heads that share 2

golden.py says what a file holds. Here C = 24, matrices are [out, in], the MLP has 37 units; the second half of a head's numbers is
turned with the first. Metadata has GPT-2's keys for what both have. OLMo 2 has no ln1.normalized and ln2.normalized (they are
attn_out and mlp_out); q_norm.normalized and k_norm.normalized are before heads and turning.

transformers takes norms, rotary angles and, in its eager attention, the softmax in float32 whatever the model's type. Here all
are float64: norms and angles by the classes below, attention by PyTorch's scaled_dot_product_attention.
"""

import math
import pathlib

import torch
import transformers

import golden
from golden import BATCH, TIME
from make_gpt_neox import check_same

SEED = 20250311
HIDDEN, WIDTH, LAYERS = 37, 24, 2


def turns(size, base):
    """Angle [T, size / 2] of each position and pair."""
    rates = [base ** (-2 * i / size) for i in range(size // 2)]
    return torch.tensor([[t * rate for rate in rates] for t in range(TIME)], dtype=torch.float64)


class Rotary(torch.nn.Module):
    """Stands in for the family's RotaryEmbedding, in float64."""

    def __init__(self, size, base):
        super().__init__()
        self.angles = turns(size, base).repeat(1, 2)

    def forward(self, _, position_ids):
        return self.angles[position_ids].cos(), self.angles[position_ids].sin()


def root_mean_square(x, weight, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def plain_layer_norm(x, eps):
    x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def in_float64(model):
    """The norms' forward is replaced, so their hooks and parameters stay."""
    config = model.config
    model.double()
    model.set_attn_implementation("sdpa")
    model.model.rotary_emb = Rotary(WIDTH // config.num_attention_heads, config.rope_parameters["rope_theta"])
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = lambda x, m=module: root_mean_square(x, m.weight, m.variance_epsilon)
        elif type(module).__name__ == "OlmoLayerNorm":
            module.forward = lambda x: plain_layer_norm(x, 1e-5)


def tap(model, taps):
    body = model.model
    post_norm = model.config.model_type == "olmo2"
    taps.output(body.embed_tokens, "embed")
    for i, layer in enumerate(body.layers):
        block = f"blocks.{i}."
        taps.before(layer, block + "resid_pre")
        if post_norm:
            taps.output(layer.self_attn.q_norm, block + "attn.q_norm.normalized")
            taps.output(layer.self_attn.k_norm, block + "attn.k_norm.normalized")
            taps.output(layer.post_attention_layernorm, block + "attn_out")
            taps.before(layer.mlp, block + "resid_mid")
            taps.output(layer.post_feedforward_layernorm, block + "mlp_out")
        else:
            taps.output(layer.input_layernorm, block + "ln1.normalized")
            taps.output(layer.self_attn, block + "attn_out")
            taps.before(layer.post_attention_layernorm, block + "resid_mid")
            taps.output(layer.post_attention_layernorm, block + "ln2.normalized")
            taps.output(layer.mlp, block + "mlp_out")
        taps.output(layer, block + "resid_post")
    taps.output(body.norm, "ln_final.normalized")


def forward(config, p, tokens):
    """The model written out: logits, and the tensors at the taps, from parameters `p` by name."""
    seen = {}
    post_norm = config.model_type == "olmo2"
    heads, groups, size = config.num_attention_heads, config.num_key_value_heads, WIDTH // config.num_attention_heads
    angles = turns(size, config.rope_parameters["rope_theta"])

    def see(name, value):
        seen[name] = value
        return value

    def linear(x, name):
        return x @ p[name + ".weight"].T

    def norm(x, name):
        if config.model_type == "olmo":
            return plain_layer_norm(x, 1e-5)
        return root_mean_square(x, p[name + ".weight"], config.rms_norm_eps)

    def split(x, count):
        return x.view(BATCH, TIME, count, size).transpose(1, 2)

    def turn(x):
        a, b = x[..., : size // 2], x[..., size // 2 :]
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def attention(x, layer, block):
        q, k, v = (linear(x, f"{layer}self_attn.{name}_proj") for name in "qkv")
        if getattr(config, "clip_qkv", None):
            q, k, v = (x.clamp(-config.clip_qkv, config.clip_qkv) for x in (q, k, v))
        if post_norm:
            q = see(block + "attn.q_norm.normalized", norm(q, layer + "self_attn.q_norm"))
            k = see(block + "attn.k_norm.normalized", norm(k, layer + "self_attn.k_norm"))
        of_group = torch.arange(heads) // (heads // groups)
        q, k, v = turn(split(q, heads)), turn(split(k, groups))[:, of_group], split(v, groups)[:, of_group]
        scores = q @ k.transpose(2, 3) / math.sqrt(size)
        scores = scores.masked_fill(torch.ones(TIME, TIME).triu(1).bool(), -torch.inf)
        return linear((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape), layer + "self_attn.o_proj")

    def mlp(x, layer):
        gate = linear(x, layer + "mlp.gate_proj")
        return linear(gate * torch.sigmoid(gate) * linear(x, layer + "mlp.up_proj"), layer + "mlp.down_proj")

    x = see("embed", p["model.embed_tokens.weight"][tokens])
    for i in range(LAYERS):
        layer, block = f"model.layers.{i}.", f"blocks.{i}."
        see(block + "resid_pre", x)
        if post_norm:
            x = x + see(block + "attn_out", norm(attention(x, layer, block), layer + "post_attention_layernorm"))
            see(block + "resid_mid", x)
            x = x + see(block + "mlp_out", norm(mlp(x, layer), layer + "post_feedforward_layernorm"))
        else:
            read = see(block + "ln1.normalized", norm(x, layer + "input_layernorm"))
            x = see(block + "resid_mid", x + see(block + "attn_out", attention(read, layer, block)))
            read = see(block + "ln2.normalized", norm(x, layer + "post_attention_layernorm"))
            x = x + see(block + "mlp_out", mlp(read, layer))
        see(block + "resid_post", x)
    x = see("ln_final.normalized", norm(x, "model.norm"))
    return linear(x, "model.embed_tokens" if config.tie_word_embeddings else "lm_head"), seen


def check_model(model, tokens, targets, taps, logits):
    """The model written out gives the same logits, tensors at the taps and gradients."""
    parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    own_logits, seen = forward(model.config, parameters, tokens)
    check_same("logits", own_logits, logits)
    assert seen.keys() == taps.keys(), seen.keys() ^ taps.keys()
    for name, value in seen.items():
        check_same(name, value, taps[name])
    golden.loss_of(own_logits, targets)[0].backward()
    for name, parameter in model.named_parameters():
        check_same("gradient of " + name, parameters[name].grad, parameter.grad)


def make(path, family, heads, groups, tied, base, **own):
    config = getattr(transformers, family + "Config")(
        vocab_size=61, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=heads,
        num_key_value_heads=groups, intermediate_size=HIDDEN, max_position_embeddings=19, tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": base}, pad_token_id=None, bos_token_id=0,
        eos_token_id=0, attn_implementation="eager", **own,
    )  # fmt: skip
    model = getattr(transformers, family + "ForCausalLM")(config).eval()
    generator = golden.draw_parameters(model, SEED)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    # transformers with nothing replaced, in float32, gives these logits too.
    some = torch.arange(BATCH * TIME).view(BATCH, TIME)
    with torch.no_grad():
        as_it_is = model(some).logits
        in_float64(model)
        check_same("logits in float32", as_it_is, model(some).logits, 1e-5)

    kept = ["model.layers.0.self_attn.k_proj.weight", "model.embed_tokens.weight"]
    golden.make(path, model, generator, tap, check_model, kept, {
        "made_by": "tests/golden/make_llama.py", "model": family + "ForCausalLM", "vocab_size": config.vocab_size,
        "n_positions": config.max_position_embeddings, "n_embd": WIDTH, "n_head": heads, "n_layer": LAYERS,
        "n_inner": HIDDEN, "activation_function": config.hidden_act, "layer_norm_epsilon": own.get("rms_norm_eps", 1e-5),
        "family": family.lower(), "key_value_heads": groups, "rotary_base": base, "clip_qkv": own.get("clip_qkv", 0),
        "tie_word_embeddings": str(tied).lower(), "seed": SEED,
    })  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    here = pathlib.Path(__file__).resolve().parent
    make(here / "llama_grouped.safetensors", "Llama", 6, 2, False, 1234.5, rms_norm_eps=3e-3)
    make(here / "llama_tied.safetensors", "Llama", 3, 3, True, 77.0, rms_norm_eps=0.1)
    make(here / "olmo_clipped.safetensors", "Olmo", 6, 3, False, 500.0, clip_qkv=1.75)
    make(here / "olmo2_grouped.safetensors", "Olmo2", 6, 2, False, 321.0, rms_norm_eps=0.02)
