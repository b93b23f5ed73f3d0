"""From what a user passes to what the library takes."""
import copy
import os
import pathlib

import torch

from . import _arrays, _core, _networks
from ._errors import Error

_SWEEP_PARTS = ("grid", "row", "column", "methods")
HELD_OUT = 0.2  # share of the samples to test on, where no test part is given


def tree_of(experiment, overrides, seed):
    """The experiment as a dict of its own, and the file it came from or ""."""
    source = ""
    if experiment is None:
        tree = {}
    elif isinstance(experiment, dict):
        tree = copy.deepcopy(experiment)
    else:
        source = os.fspath(experiment)
        tree = _core.read_tree(source)
    for key, value in overrides.items():
        tree = _set(tree, key, value)
    if seed is not None:
        tree["seed"] = seed
    return tree, source


def _set(tree, key, value):
    """A dict with a name takes the place of a table, one without changes its keys."""
    if isinstance(value, dict) and "name" not in value and key != "grid":
        for part, entry in value.items():
            tree = _set(tree, f"{key}.{part}", entry)
        return tree
    return _core.set_by_path(tree, key, value)


def refuse_sweep(tree):
    for part in _SWEEP_PARTS:
        if part in tree:
            raise Error(f"the experiment has '{part}': it is a sweep", "experiment", "run it with winnow.sweep()")


def runtime(lanes, device, precision, trust_model=False):
    return {"lanes": lanes, "device": device, "precision": precision, "trust_model": trust_model}


def use_data(tree, data, test, held_out=HELD_OUT):
    """Puts the user's data into the tree. Returns what _core takes of it, or None."""
    if data is None:
        if test is not None:
            raise Error("test is given, but data is not")
        return None
    table = tree.setdefault("data", {})
    if isinstance(data, str):
        if test is not None:
            raise Error(f"data = '{data}' brings its own test part: leave test out")
        tree["data"] = {"name": data}
        return None
    arrays = _arrays.arrays(data, test)
    table.update(name="python", digest=arrays.digest, held_out=held_out if test is None else 0.0)
    if len(data) == 3 and data[2] is not None:
        federation = tree.setdefault("federation", {})
        if "partition" in federation:
            raise Error("federation.partition: the data says what each client holds", "experiment",
                        "remove it, or pass (x, y) without clients to deal them out anew")
        federation.setdefault("clients", arrays.number_of_clients())
    return arrays


def check_model(model):
    if model is not None and not isinstance(model, (str, dict, torch.nn.Module)):
        raise Error(f"model: a {type(model).__name__}, expected a name or a torch.nn.Module")


def use_model(tree, model, data, path):
    """Puts the user's network into the tree. A module is to lie at `path`; returns it as TorchScript, or None."""
    check_model(model)
    if model is None:
        return None
    if isinstance(model, (str, dict)):
        tree["model"] = {"name": model} if isinstance(model, str) else dict(model)
        return None
    tree["model"] = {**tree.get("model", {}), "name": "torchscript", "path": str(pathlib.Path(path).absolute())}
    return _networks.scripted(model, _example(data))


def _example(data):
    """Some images of the user's data as a network sees them."""
    if data is None or isinstance(data, str):
        return None
    images = _arrays._images(data[0][:2], "data images")
    return images.float() / 127.5 - 1
