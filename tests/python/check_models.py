#!/usr/bin/env python3
"""Reads what Winnow wrote with nothing but PyTorch and the standard library.

  check_models.py models DIR NAME...   model.pt and safetensors give the logits that Winnow gives
  check_models.py run DIR IMAGES LABELS   a run's model has the accuracy and loss that the run logged
"""
import csv
import gzip
import json
import pathlib
import struct
import sys

import torch

DTYPES = {"F64": torch.float64, "I64": torch.int64, "F32": torch.float32, "I32": torch.int32,
          "U8": torch.uint8}


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = bytearray(data[8 + length + begin:8 + length + end])
        tensors[name] = torch.frombuffer(raw, dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def expect_same_tensors(module, tensors):
    state = module.state_dict()
    assert set(state) == set(tensors), set(state) ^ set(tensors)
    for name, value in state.items():
        assert value.dtype == tensors[name].dtype, name
        assert torch.equal(value, tensors[name]), name


def check_models(folder, names):
    for name in names:
        module = torch.jit.load(str(folder / f"{name}.pt"))
        tensors = read_safetensors(folder / f"{name}.safetensors")
        check = read_safetensors(folder / f"{name}.check.safetensors")
        expect_same_tensors(module, tensors)
        assert module.mean == [0.5] * 3 and module.std == [0.25] * 3
        with torch.no_grad():
            apart = (module(check["images"]) - check["logits"]).abs().max().item()
        # MobileNet sums in another order than its script, under 27 norms over a small batch.
        tolerance = 2e-4 if name == "mobilenet" else 1e-5
        assert apart <= tolerance, f"{name}: logits are {apart} apart"
        # The other way round: the safetensors alone make the same network.
        for value in module.parameters():
            torch.nn.init.zeros_(value)
        module.load_state_dict(tensors)
        with torch.no_grad():
            apart = (module(check["images"]) - check["logits"]).abs().max().item()
        assert apart <= tolerance, f"{name}: logits with loaded weights are {apart} apart"
        print(f"{name}: {len(tensors)} tensors, logits within {apart:.1e}")


def read_idx(path):
    data = gzip.open(path).read()
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4:4 + 4 * rank])
    return torch.frombuffer(bytearray(data[4 + 4 * rank:]), dtype=torch.uint8).reshape(shape)


def check_run(folder, images, labels):
    module = torch.jit.load(str(folder / "model.pt"))
    expect_same_tensors(module, read_safetensors(folder / "model.safetensors"))
    last = list(csv.DictReader(open(folder / "metrics.csv")))[-1]
    limit = 500  # data.test_limit
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (module.mean, module.std))
    inputs = (read_idx(images)[:limit].unsqueeze(1).float() / 255 - mean) / std
    targets = read_idx(labels)[:limit].long()
    with torch.no_grad():
        logits = module(inputs)
    accuracy = (logits.argmax(1) == targets).double().mean().item()
    loss = torch.nn.functional.cross_entropy(logits, targets).item()
    assert abs(accuracy - float(last["accuracy"])) < 1e-9, (accuracy, last)
    assert abs(loss - float(last["loss"])) < 1e-5, (loss, last)
    print(f"run: accuracy {accuracy:.4f} and loss {loss:.5f} as logged")


if __name__ == "__main__":
    if sys.argv[1] == "models":
        check_models(pathlib.Path(sys.argv[2]), sys.argv[3:])
    else:
        check_run(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])
