"""Model files taken apart, and forged ones with a valid digest."""

import json

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from knet.model.read import FORMAT, digest_of


def parts(path):
    """Return the metadata, the header and the tensors of a file."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    return metadata, json.loads(metadata["header"]), load_file(path)


def forge(path, header, tensors, **metadata):
    """Write a file with a valid digest, whatever its content."""
    text = header if isinstance(header, str) else json.dumps(header, sort_keys=True)
    known = {name: value for name, value in tensors.items() if value.dtype != torch.bfloat16}  # NumPy has no such type
    digest = digest_of(text, {name: value.numpy() for name, value in known.items()})
    genuine = {"format": FORMAT, "header": text, "digest": digest}
    save_file(tensors, path, genuine | metadata)
