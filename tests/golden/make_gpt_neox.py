"""Makes gpt_neox_*.safetensors: a tiny random GPT-NeoX (Pythia's family) as Hugging Face and PyTorch compute it.

    python3 -m venv venv && venv/bin/pip install torch==2.15.* transformers==5.24.* numpy safetensors
    venv/bin/python tests/golden/make_gpt_neox.py

    gpt_neox_parallel     attention and MLP both read the block's input; lm_head.weight is old files' embed_out.weight
    gpt_neox_sequential   the MLP reads the stream after attention
    gpt_neox_tied         parallel, lm_head.weight tied to gpt_neox.embed_in.weight: once, both uses in its gradient

golden.py says what a file holds. Here C = 24, matrices are [out, in], and the rows of query_key_value go by head, in a
head by query, key, value: [head][3][8]. The first 4 of a head's 8 dimensions are rotated, 0 with 2 and 1 with 3. Only
the sequential file has blocks.L.resid_mid. Metadata has GPT-2's keys for what both families have.

transformers takes rotary angles and, in its eager attention, the softmax in float32 whatever the model's type. Here
both are float64: angles by Rotary below, attention by PyTorch's scaled_dot_product_attention.
"""

import math
import pathlib

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

import golden
from golden import BATCH, TIME

SEED = 20240612
ROTARY_PCT, ROTARY_BASE = 0.5, 10000
ADAMW_KEPT = ["gpt_neox.layers.0.attention.query_key_value.weight", "gpt_neox.embed_in.weight"]


def angles(rotary_dims):
    """Angle [T, rotary_dims / 2] of each position and pair."""
    rates = [ROTARY_BASE ** (-2 * i / rotary_dims) for i in range(rotary_dims // 2)]
    return torch.tensor([[t * rate for rate in rates] for t in range(TIME)], dtype=torch.float64)


class Rotary(torch.nn.Module):
    """Stands in for GPTNeoXRotaryEmbedding, in float64."""

    def __init__(self, rotary_dims):
        super().__init__()
        self.angles = angles(rotary_dims).repeat(1, 2)

    def forward(self, _, position_ids):
        return self.angles[position_ids].cos(), self.angles[position_ids].sin()


def make_model(parallel, tied):
    config = GPTNeoXConfig(
        vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52,
        hidden_act="gelu", layer_norm_eps=1e-5, max_position_embeddings=19, attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": ROTARY_BASE, "partial_rotary_factor": ROTARY_PCT},
        use_parallel_residual=parallel, tie_word_embeddings=tied, hidden_dropout=0.0, attention_dropout=0.0,
        bos_token_id=0, eos_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    model = GPTNeoXForCausalLM(config).eval()
    generator = golden.draw_parameters(model, SEED)
    assert (model.lm_head.weight is model.gpt_neox.embed_in.weight) == tied
    return model, generator


def in_float64(model):
    model.double()
    model.set_attn_implementation("sdpa")
    model.gpt_neox.rotary_emb = Rotary(model.gpt_neox.layers[0].attention.rotary_ndims)


def tap(model, taps):
    body = model.gpt_neox
    taps.output(body.embed_in, "embed")
    for i, layer in enumerate(body.layers):
        taps.before(layer, f"blocks.{i}.resid_pre")
        taps.output(layer.input_layernorm, f"blocks.{i}.ln1.normalized")
        taps.output(layer.attention, f"blocks.{i}.attn_out")
        if not layer.use_parallel_residual:
            taps.before(layer.post_attention_layernorm, f"blocks.{i}.resid_mid")
        taps.output(layer.post_attention_layernorm, f"blocks.{i}.ln2.normalized")
        taps.output(layer.mlp, f"blocks.{i}.mlp_out")
        taps.output(layer, f"blocks.{i}.resid_post")
    taps.output(body.final_layer_norm, "ln_final.normalized")


def forward(config, p, tokens):
    """The model written out: logits, and the tensors at the taps, from parameters `p` by name."""
    seen = {}

    def see(name, value):
        seen[name] = value
        return value

    def linear(x, name):
        return x @ p[name + ".weight"].T + p[name + ".bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdim=True)
        x = x / ((x * x).mean(-1, keepdim=True) + config.layer_norm_eps).sqrt()
        return x * p[name + ".weight"] + p[name + ".bias"]

    heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    half = int(size * ROTARY_PCT) // 2
    cos, sin = (f(angles(2 * half)) for f in (torch.cos, torch.sin))

    def rotate(x):
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    x = see("embed", p["gpt_neox.embed_in.weight"][tokens])
    for i in range(config.num_hidden_layers):
        layer, block = f"gpt_neox.layers.{i}.", f"blocks.{i}."
        see(block + "resid_pre", x)
        normalized = see(block + "ln1.normalized", norm(x, layer + "input_layernorm"))
        qkv = linear(normalized, layer + "attention.query_key_value").view(BATCH, TIME, heads, 3, size)
        q, k, v = qkv.permute(3, 0, 2, 1, 4)
        scores = rotate(q) @ rotate(k).transpose(2, 3) / math.sqrt(size)
        scores = scores.masked_fill(torch.ones(TIME, TIME).triu(1).bool(), -torch.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        attn_out = see(block + "attn_out", linear(mixed, layer + "attention.dense"))
        middle = x if config.use_parallel_residual else see(block + "resid_mid", x + attn_out)
        normalized = see(block + "ln2.normalized", norm(middle, layer + "post_attention_layernorm"))
        units = linear(normalized, layer + "mlp.dense_h_to_4h")
        units = units * (1 + torch.erf(units / math.sqrt(2))) / 2
        mlp_out = see(block + "mlp_out", linear(units, layer + "mlp.dense_4h_to_h"))
        x = see(block + "resid_post", x + attn_out + mlp_out)
    x = see("ln_final.normalized", norm(x, "gpt_neox.final_layer_norm"))
    output = "gpt_neox.embed_in" if config.tie_word_embeddings else "lm_head"
    return x @ p[output + ".weight"].T, seen


def check_same(name, value, expected, tolerance=1e-12):
    difference = (value - expected).abs().max().item()
    assert difference <= tolerance * (1 + expected.abs().max().item()), f"{name} differs by {difference}"


def check_model(model, tokens, targets, taps, logits):
    """The model written out gives the same logits, tensors at the taps and gradients."""
    parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    own_logits, seen = forward(model.config, parameters, tokens)
    check_same("logits", own_logits, logits)
    assert seen.keys() == taps.keys()
    for name, value in seen.items():
        check_same(name, value, taps[name])
    golden.loss_of(own_logits, targets)[0].backward()
    for name, parameter in model.named_parameters():
        check_same("gradient of " + name, parameters[name].grad, parameter.grad)


def make(path, parallel, tied):
    model, generator = make_model(parallel, tied)
    # transformers with nothing replaced, in float32, gives these logits too.
    some = torch.arange(BATCH * TIME).view(BATCH, TIME)
    with torch.no_grad():
        as_it_is = model(some).logits
        in_float64(model)
        check_same("logits in float32", as_it_is, model(some).logits, 1e-5)

    config = model.config
    golden.make(path, model, generator, tap, check_model, ADAMW_KEPT, {
        "made_by": "tests/golden/make_gpt_neox.py", "model": "GPTNeoXForCausalLM", "vocab_size": config.vocab_size,
        "n_positions": config.max_position_embeddings, "n_embd": config.hidden_size,
        "n_head": config.num_attention_heads, "n_layer": config.num_hidden_layers,
        "n_inner": config.intermediate_size, "activation_function": config.hidden_act,
        "layer_norm_epsilon": config.layer_norm_eps, "rotary_pct": ROTARY_PCT, "rotary_base": ROTARY_BASE,
        "use_parallel_residual": str(parallel).lower(), "tie_word_embeddings": str(tied).lower(), "seed": SEED,
    })  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    here = pathlib.Path(__file__).resolve().parent
    make(here / "gpt_neox_parallel.safetensors", parallel=True, tied=False)
    make(here / "gpt_neox_sequential.safetensors", parallel=False, tied=False)
    make(here / "gpt_neox_tied.safetensors", parallel=True, tied=True)
