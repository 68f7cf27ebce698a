"""Loads a checkpoint folder with Hugging Face's own loader, as it is, and compares its logits with a reference.

    python3 -m venv venv && venv/bin/pip install torch==2.15.* transformers==5.24.* numpy safetensors
    venv/bin/python tests/golden/check_checkpoint.py FOLDER REFERENCE.safetensors [TEXT]

REFERENCE holds `tokens` [B,T] I32 and `logits` [B,T,V] F32 (a golden file does). The tokenizer is loaded too, though a
folder need not have one. For TEXT, such as corpus/kjv.txt, it must give the ids in the token file beside it,
corpus/kjv.bin and corpus/kjv.idx, which `nascent corpus tokenize` wrote with the folder's tokenizer.model, with or
without --append-eos, at blank lines.

Exits 1 when a logit differs by more than 1e-5 (1 + |logit|), a weight was missing, unused or of another shape, or a document's ids
differ; 2 when a file cannot be read.
"""

import itertools
import pathlib
import struct
import sys

import numpy
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
    # Both are float32, whose rounding grows with the logits: 1e-5 of 1 + |logit|.
    difference = (logits - expected).abs()
    relative = (difference / (1 + expected.abs())).max().item()
    print(f"{type(model).__name__}: {logits.numel()} logits up to {expected.abs().max().item():.3g}, largest difference "
          f"{difference.max().item():.3g}, over 1 + |logit| {relative:.3g}, allowed {TOLERANCE:g}")
    return relative <= TOLERANCE and not complaints


def read_documents(path):
    # Lines end at "\n" alone, as they do for nascent.
    with open(path, encoding="utf-8", newline="\n") as lines:
        runs = itertools.groupby(lines, key=lambda line: line.strip(" \t\r\n") == "")
        return ["".join(run) for blank, run in runs if not blank]


def read_token_file(text):
    """The ids of each document (data/token_file.h); nascent writes one sequence a document."""
    index = text.with_suffix(".idx").read_bytes()
    code, sequences = struct.unpack_from("<BQ", index, 17)
    lengths = numpy.frombuffer(index, "<i4", sequences, 34)
    ids = numpy.fromfile(text.with_suffix(".bin"), {4: "<i4", 8: "<u2"}[code])
    return numpy.split(ids, numpy.cumsum(lengths)[:-1])


def load_tokenizer(folder):
    # From a folder with no tokenizer at all transformers makes an empty one of the model's usual class, silently.
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # Whatever stops it is the answer.
        print(f"tokenizer: does not load: {type(error).__name__}: {str(error).splitlines()[0]}")
        return None
    size = AutoConfig.from_pretrained(folder, local_files_only=True).vocab_size
    verdict = "loads" if 1 < len(tokenizer) <= size else "loads, but is not this model's"
    print(f"tokenizer: {type(tokenizer).__name__} with {len(tokenizer)} tokens (the model has {size}) {verdict}")
    return tokenizer


def check_ids(tokenizer, text):
    documents, expected = read_documents(text), read_token_file(text)
    if len(documents) != len(expected):
        print(f"{text}: has {len(documents)} documents, its token file {len(expected)}")
        return False
    differing = 0
    for document, row in zip(documents, expected):
        ids = tokenizer.encode(document, add_special_tokens=False)
        differing += row.tolist() not in (ids, ids + [tokenizer.eos_token_id])
    tokens = sum(map(len, expected))
    print(f"tokenizer: the ids of {differing} of {len(documents)} documents differ ({tokens} tokens in all)")
    return differing == 0


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
        tokenizer = load_tokenizer(folder)
        if len(sys.argv) == 4:
            good = tokenizer is not None and check_ids(tokenizer, pathlib.Path(sys.argv[3])) and good
    except (OSError, ValueError, KeyError, struct.error) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:  # weights of another shape; the loader has printed which
        print(f"{folder}: {error}", file=sys.stderr)
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
