"""Loads a checkpoint folder with Hugging Face's own loader, as it is, and compares its logits with a reference.

    python3 -m venv venv && venv/bin/pip install torch==2.15.* transformers==5.24.* numpy safetensors
    venv/bin/python tests/golden/check_checkpoint.py FOLDER REFERENCE.safetensors [TEXT]

REFERENCE holds `tokens` [B,T] I32 and `logits` [B,T,V] F32 (a golden file does). Exits 1 when a logit differs by more
than 1e-5 or a weight was missing, unused or of another shape, 2 when the folder or the reference cannot be read.
The tokenizer is tried too (on TEXT, if given, printing its ids); a folder need not have one.
"""

import pathlib
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

TOLERANCE = 1e-5


def check_model(folder, reference):
    # float32 whatever config.json says: the reference's tolerance is float32's.
    model, loading = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", local_files_only=True, output_loading_info=True
    )
    model.eval()
    complaints = {key: sorted(map(str, value)) for key, value in loading.items() if value}
    for key, value in complaints.items():
        print(f"{folder}: {key}: {', '.join(value)}")
    tokens, expected = reference["tokens"].long(), reference["logits"]
    with torch.no_grad():
        logits = model(tokens).logits
    if logits.shape != expected.shape:
        print(f"{folder}: logits are {list(logits.shape)}, the reference has {list(expected.shape)}")
        return False
    difference = (logits - expected).abs().max().item()
    name = type(model).__name__
    print(f"{name}: largest difference of {logits.numel()} logits is {difference:.3g}, allowed {TOLERANCE:g}")
    return difference <= TOLERANCE and not complaints


def check_tokenizer(folder, text):
    # From a folder with no tokenizer at all transformers makes an empty one of the model's usual class, silently.
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # Whatever stops it is the answer.
        print(f"tokenizer: does not load: {type(error).__name__}: {str(error).splitlines()[0]}")
        return
    size = AutoConfig.from_pretrained(folder, local_files_only=True).vocab_size
    verdict = "loads" if 1 < len(tokenizer) <= size else "loads, but is not this model's"
    print(f"tokenizer: {type(tokenizer).__name__} with {len(tokenizer)} tokens (the model has {size}) {verdict}")
    if text is not None:
        print("ids:", *tokenizer.encode(text, add_special_tokens=False))


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    folder, reference = sys.argv[1:3]
    if not pathlib.Path(folder).is_dir():  # from_pretrained would take it for a name on the hub
        print(f"{folder}: no such folder", file=sys.stderr)
        return 2
    try:
        good = check_model(folder, load_file(reference))
    except (OSError, ValueError, KeyError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:  # weights of another shape; the loader has printed which
        print(f"{folder}: {error}", file=sys.stderr)
        return 1
    check_tokenizer(folder, sys.argv[3] if len(sys.argv) == 4 else None)
    return 0 if good else 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
