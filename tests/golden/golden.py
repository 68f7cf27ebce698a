"""What the makers of golden files share: a reproducible safetensors writer and the versions that made a file.

Golden files are made once, by hand, and committed; neither nascent nor its tests run Python.
"""

import json
import platform
import struct

import numpy
import torch
import transformers

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
