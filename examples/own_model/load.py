#!/usr/bin/env python3
"""Loads the model of a finished run and measures it on Fashion-MNIST: load.py RUN_DIRECTORY."""
import gzip
import json
import pathlib
import sys

import torch

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read(name, header):
    raw = gzip.open(DATA / name).read()[header:]
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)


run = pathlib.Path(sys.argv[1])
model = torch.jit.load(str(run / "model.pt"))
images = read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)[:1000]  # data.test_limit
labels = read("t10k-labels-idx1-ubyte.gz", 8)[:1000].long()

# `mean` and `std`, one value per channel, say how images with values in [0, 1] become input.
mean = torch.tensor(model.mean).view(1, -1, 1, 1)
std = torch.tensor(model.std).view(1, -1, 1, 1)
with torch.no_grad():
    logits = model((images.float() / 255 - mean) / std)
accuracy = (logits.argmax(1) == labels).double().mean().item()

logged = json.loads((run / "summary.json").read_text())["last"]
print(f"{run.name}: accuracy {accuracy:.2%} in Python, {logged:.2%} in the run")
if abs(accuracy - logged) > 1e-9:
    sys.exit("the two differ")
