"""Makes gpt2_tanh.safetensors and gpt2_erf.safetensors: a tiny random GPT-2 as Hugging Face and PyTorch compute it.

    python3 -m venv venv && venv/bin/pip install torch==2.15.* transformers==5.24.* numpy safetensors
    venv/bin/python tests/golden/make_gpt2.py

The files differ in the activation: "gelu_new" (the tanh form, GPT-2's own) and "gelu" (erf).

Parameters are drawn and rounded to float32; everything after that is computed in float64 from these rounded values, and
rounded to float32 only when stored. So the files are more exact than any float32 run: the distance of an fp32 run from
them is that run's own error, and an fp64 run should meet them to float32's last bit.

Tensors (B = 3, T = 17, C = 18, V = 61; parameters by Hugging Face's names and in its layout, c_attn.weight is [in, out];
lm_head.weight is tied to transformer.wte.weight and so appears once, its gradient holding both uses):
    tokens, targets [B,T] I32     targets[b,t] is what position t predicts; -1 = not counted
    logits [B,T,V]                losses [B,T]: cross entropy per position, 0 where not counted
    loss [1]                      mean of losses over the counted positions
    param:NAME, grad:NAME         grad = d loss / d param
    value:TAP, tapgrad:TAP        [B,T,C], taps by TransformerLens' names; tapgrad = d loss / d value of that very tensor
    grad_norm [1]                 global norm before the first update
    adamw_losses [10]             loss before each of ten AdamW updates on this batch
    adamw_grad_norms [10]         global norm before each of them, before clipping
    adamw_param:NAME              two of the parameters after the ten updates
The metadata holds the sizes, the optimizer's numbers and the versions.
"""

import pathlib

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

import golden

SEED = 20240611
BATCH, TIME = 3, 17
IGNORED = [(0, 0), (0, 9), (1, 16), (2, 3), (2, 4)]
ADAMW = {"lr": 3e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "clip": 1.0, "steps": 10}
ADAMW_KEPT = ["transformer.h.0.attn.c_attn.weight", "transformer.wte.weight"]


def make_model(activation):
    config = GPT2Config(
        vocab_size=61, n_positions=19, n_embd=18, n_head=3, n_layer=2, n_inner=None, activation_function=activation,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            normal = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if parameter.dim() == 2:
                parameter.copy_(0.3 * normal)
            elif ".ln_" in name and name.endswith("weight"):
                parameter.copy_(1 + 0.2 * normal)
            else:
                parameter.copy_(0.1 * normal)
    assert model.lm_head.weight is model.transformer.wte.weight
    return model.double(), generator


def make_batch(generator, vocabulary):
    tokens = torch.randint(vocabulary, (BATCH, TIME), generator=generator)
    targets = torch.randint(vocabulary, (BATCH, TIME), generator=generator)
    for b, t in IGNORED:
        targets[b, t] = -1
    return tokens, targets


def loss_of(logits, targets):
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1, reduction="none")
    return losses.sum() / (targets >= 0).sum(), losses


def tap(model):
    """Catches the model's own tensors while it runs; returns the dictionary that a forward pass fills, and the hooks."""
    taps, hooks = {}, []

    def keep(name, tensor):
        tensor.retain_grad()
        taps[name] = tensor

    def output(module, name):
        def hook(_, __, result):
            keep(name, result[0] if isinstance(result, tuple) else result)

        hooks.append(module.register_forward_hook(hook))

    def before(module, name):
        hooks.append(module.register_forward_pre_hook(lambda _, args: keep(name, args[0])))

    body = model.transformer
    output(body.wte, "embed")
    for i, block in enumerate(body.h):
        before(block, f"blocks.{i}.resid_pre")
        output(block.ln_1, f"blocks.{i}.ln1.normalized")
        output(block.attn, f"blocks.{i}.attn_out")
        before(block.ln_2, f"blocks.{i}.resid_mid")
        output(block.ln_2, f"blocks.{i}.ln2.normalized")
        output(block.mlp, f"blocks.{i}.mlp_out")
        output(block, f"blocks.{i}.resid_post")
    output(body.ln_f, "ln_final.normalized")
    return taps, hooks


def check_taps(model, taps, logits):
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


def train(model, tokens, targets):
    """Ten AdamW steps, decay on matrices and embeddings only; losses before each update, norm before the first."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": ADAMW["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}],
        lr=ADAMW["lr"], betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["eps"], foreach=False,
    )  # fmt: skip
    losses, norms = [], []
    for _ in range(ADAMW["steps"]):
        optimizer.zero_grad()
        loss, _ = loss_of(model(tokens).logits, targets)
        loss.backward()
        # Scales by clip / (norm + 1e-6) where that is below 1.
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), ADAMW["clip"]))
        losses.append(loss.detach())
        optimizer.step()
    assert norms[0] > 1, "the golden file should exercise clipping"
    return torch.stack(losses), torch.stack(norms)


def make(activation, path):
    model, generator = make_model(activation)
    tokens, targets = make_batch(generator, model.config.vocab_size)
    taps, hooks = tap(model)
    logits = model(tokens, use_cache=False).logits
    assert logits.dtype == torch.float64
    loss, losses = loss_of(logits, targets)
    loss.backward()
    for hook in hooks:
        hook.remove()
    check_taps(model, taps, logits)

    tensors = {"tokens": tokens, "targets": targets, "logits": logits, "loss": loss[None], "losses": losses}
    for name, parameter in model.named_parameters():
        # Copies: the optimizer below changes parameters in place.
        tensors["param:" + name] = parameter.detach().clone()
        tensors["grad:" + name] = parameter.grad.clone()
    for name, value in taps.items():
        tensors["value:" + name] = value
        tensors["tapgrad:" + name] = value.grad
    adamw_losses, norms = train(model, tokens, targets)
    tensors |= {"grad_norm": norms[:1], "adamw_losses": adamw_losses, "adamw_grad_norms": norms}
    for name in ADAMW_KEPT:
        tensors["adamw_param:" + name] = model.get_parameter(name)

    config = model.config
    sizes = {k: getattr(config, k) for k in ("vocab_size", "n_positions", "n_embd", "n_head", "n_layer")}
    adamw = {"adamw_" + k: v for k, v in ADAMW.items()}
    golden.save(path, tensors, {
        "made_by": "tests/golden/make_gpt2.py", "model": "GPT2LMHeadModel", **sizes, "n_inner": 4 * config.n_embd,
        "activation_function": activation, "layer_norm_epsilon": config.layer_norm_epsilon, "seed": SEED,
        "computed_in": "float64 from float32 parameters, stored as float32", **adamw,
        "adamw_decayed": "tensors of two dimensions", "adamw_clip_scale": "min(1, clip / (norm + 1e-6))",
        **golden.versions(),
    })  # fmt: skip
    print(f"{path.name}: {path.stat().st_size} bytes, {len(tensors)} tensors, loss {loss:.6f}, norm {norms[0]:.4f}, "
          f"after {ADAMW['steps']} steps {adamw_losses[-1]:.6f}")  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    here = pathlib.Path(__file__).resolve().parent
    make("gelu_new", here / "gpt2_tanh.safetensors")
    make("gelu", here / "gpt2_erf.safetensors")
