"""Makes gpt2_tanh.safetensors and gpt2_erf.safetensors: a tiny random GPT-2 as Hugging Face and PyTorch compute it.

    python3 -m venv venv && venv/bin/pip install torch==2.15.* transformers==5.24.* numpy safetensors
    venv/bin/python tests/golden/make_gpt2.py

The files differ in the activation: "gelu_new" (the tanh form, GPT-2's own) and "gelu" (erf).

golden.py says what a file holds. Here C = 18, c_attn.weight is [in, out], and lm_head.weight is tied to
transformer.wte.weight and so appears once, its gradient holding both uses.
"""

import pathlib

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import golden
from golden import BATCH, TIME

SEED = 20240611
ADAMW_KEPT = ["transformer.h.0.attn.c_attn.weight", "transformer.wte.weight"]


def make_model(activation):
    config = GPT2Config(
        vocab_size=61, n_positions=19, n_embd=18, n_head=3, n_layer=2, n_inner=None, activation_function=activation,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    generator = golden.draw_parameters(model, SEED)
    assert model.lm_head.weight is model.transformer.wte.weight
    return model.double(), generator


def tap(model, taps):
    body = model.transformer
    taps.output(body.wte, "embed")
    for i, block in enumerate(body.h):
        taps.before(block, f"blocks.{i}.resid_pre")
        taps.output(block.ln_1, f"blocks.{i}.ln1.normalized")
        taps.output(block.attn, f"blocks.{i}.attn_out")
        taps.before(block.ln_2, f"blocks.{i}.resid_mid")
        taps.output(block.ln_2, f"blocks.{i}.ln2.normalized")
        taps.output(block.mlp, f"blocks.{i}.mlp_out")
        taps.output(block, f"blocks.{i}.resid_post")
    taps.output(body.ln_f, "ln_final.normalized")


def check_taps(model, _, __, taps, logits):
    """The taps are what their names say: the model's forward, written out here, gives the same tensors bit for bit."""
    body = model.transformer

    def same(name, value):
        assert torch.equal(taps[name], value), name

    with torch.no_grad():
        x = taps["embed"] + body.wpe.weight[:TIME]
        for i, block in enumerate(body.h):
            same(f"blocks.{i}.resid_pre", x)
            normalized = block.ln_1(x)
            same(f"blocks.{i}.ln1.normalized", normalized)
            q, k, v = (
                z.view(BATCH, TIME, block.attn.num_heads, -1).transpose(1, 2)
                for z in block.attn.c_attn(normalized).split(x.shape[-1], dim=2)
            )
            scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
            scores = scores.masked_fill(torch.ones(TIME, TIME).triu(1).bool(), -torch.inf)
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
            attn_out = block.attn.c_proj(mixed.contiguous())
            same(f"blocks.{i}.attn_out", attn_out)
            x = x + attn_out
            same(f"blocks.{i}.resid_mid", x)
            same(f"blocks.{i}.ln2.normalized", block.ln_2(x))
            mlp_out = block.mlp(block.ln_2(x))
            same(f"blocks.{i}.mlp_out", mlp_out)
            x = x + mlp_out
            same(f"blocks.{i}.resid_post", x)
        x = body.ln_f(x)
        same("ln_final.normalized", x)
        assert torch.equal(logits, x @ body.wte.weight.T)


def make(activation, path):
    model, generator = make_model(activation)
    config = model.config
    sizes = {k: getattr(config, k) for k in ("vocab_size", "n_positions", "n_embd", "n_head", "n_layer")}
    golden.make(path, model, generator, tap, check_taps, ADAMW_KEPT, {
        "made_by": "tests/golden/make_gpt2.py", "model": "GPT2LMHeadModel", **sizes, "n_inner": 4 * config.n_embd,
        "activation_function": activation, "layer_norm_epsilon": config.layer_norm_epsilon, "seed": SEED,
    })  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    here = pathlib.Path(__file__).resolve().parent
    make("gelu_new", here / "gpt2_tanh.safetensors")
    make("gelu", here / "gpt2_erf.safetensors")
