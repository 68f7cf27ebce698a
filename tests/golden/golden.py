"""What the makers of golden files share: the batch, the training steps, and a reproducible safetensors writer.

Golden files are made once, by hand, and committed; neither nascent nor its tests run Python.

Parameters are drawn and rounded to float32; everything after that is computed in float64 from these rounded values, and
rounded to float32 only when stored. So the files are more exact than any float32 run: the distance of an fp32 run from
them is that run's own error, and an fp64 run should meet them to float32's last bit.

Tensors (B = 3, T = 17, C the width, V = 61; parameters by Hugging Face's names and in its layouts):
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

import json
import platform
import struct

import numpy
import torch
import torch.nn.functional as F
import transformers

BATCH, TIME = 3, 17
IGNORED = [(0, 0), (0, 9), (1, 16), (2, 3), (2, 4)]
ADAMW = {"lr": 3e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "clip": 1.0, "steps": 10}

_DTYPES = {numpy.dtype("float32"): "F32", numpy.dtype("int32"): "I32"}


def versions():
    """The versions behind a file, for its metadata (torch's without its build suffix)."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
    }


def save(path, tensors, metadata):
    """Writes safetensors with the keys in order of insertion, so that a rerun gives the same bytes.

    (The safetensors package keeps metadata in a hash map, whose order changes from run to run.) Floating-point tensors
    are rounded to F32, integer ones to I32. Values of `metadata` become strings.
    """
    header, payload, offset = {"__metadata__": {k: str(v) for k, v in metadata.items()}}, [], 0
    for name, tensor in tensors.items():
        array = tensor.detach().numpy()
        array = array.astype(numpy.float32 if array.dtype.kind == "f" else numpy.int32)
        if array.dtype.kind == "f" and not numpy.isfinite(array).all():
            raise ValueError(f"{path}: {name} is not finite")
        data = numpy.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": _DTYPES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        payload.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(payload))


def draw_parameters(model, seed):
    """Gives every parameter random values away from its symmetric start; the generator goes on to draw the batch."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            normal = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if parameter.dim() == 2:
                parameter.copy_(0.3 * normal)
            elif name.endswith("weight"):  # a norm's
                parameter.copy_(1 + 0.2 * normal)
            else:
                parameter.copy_(0.1 * normal)
    return generator


def make_batch(generator, vocabulary):
    tokens = torch.randint(vocabulary, (BATCH, TIME), generator=generator)
    targets = torch.randint(vocabulary, (BATCH, TIME), generator=generator)
    for b, t in IGNORED:
        targets[b, t] = -1
    return tokens, targets


def loss_of(logits, targets):
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1, reduction="none")
    return losses.sum() / (targets >= 0).sum(), losses


class Taps(dict):
    """Catches a model's own tensors while it runs: a forward pass fills this dictionary, until `remove`."""

    def __init__(self):
        super().__init__()
        self._hooks = []

    def _keep(self, name, tensor):
        tensor.retain_grad()
        self[name] = tensor

    def output(self, module, name):
        def hook(_, __, result):
            self._keep(name, result[0] if isinstance(result, tuple) else result)

        self._hooks.append(module.register_forward_hook(hook))

    def before(self, module, name):
        self._hooks.append(module.register_forward_pre_hook(lambda _, args: self._keep(name, args[0])))

    def remove(self):
        for hook in self._hooks:
            hook.remove()


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


def make(path, model, generator, tap, check, adamw_kept, metadata):
    """Runs `model` on a batch from `generator` and writes the file.

    `tap(model, taps)` hooks the tensors to keep; `check(model, tokens, targets, taps, logits)` sees them, with the
    gradients in place; `metadata` comes before what is the same for every file.
    """
    tokens, targets = make_batch(generator, model.config.vocab_size)
    taps = Taps()
    tap(model, taps)
    logits = model(tokens, use_cache=False).logits
    assert logits.dtype == torch.float64
    loss, losses = loss_of(logits, targets)
    loss.backward()
    taps.remove()
    check(model, tokens, targets, taps, logits)

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
    for name in adamw_kept:
        tensors["adamw_param:" + name] = model.get_parameter(name)
    save(path, tensors, {
        **metadata, "computed_in": "float64 from float32 parameters, stored as float32",
        **{"adamw_" + k: v for k, v in ADAMW.items()}, "adamw_decayed": "tensors of two dimensions",
        "adamw_clip_scale": "min(1, clip / (norm + 1e-6))", **versions(),
    })  # fmt: skip
    print(f"{path.name}: {path.stat().st_size} bytes, {len(tensors)} tensors, loss {loss:.6f}, norm {norms[0]:.4f}, "
          f"after {ADAMW['steps']} steps {adamw_losses[-1]:.6f}")  # fmt: skip
