"""Runs, sweeps, tables and audits."""
import html
import json
import os
import pathlib
import tempfile
import warnings

import torch

from . import _arrays, _core, _frame, _methods, _networks, _progress, _settings
from ._errors import Error, in_python


class Report:
    """The page of `winnow report`: shown in a notebook, or saved."""

    HEIGHT = 700  # pixels in a notebook

    def __init__(self, page):
        self.html = page

    def save(self, path):
        """Writes the page, one file that needs nothing from outside."""
        pathlib.Path(path).write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self):
        # A frame of its own: neither page changes how the other looks.
        return (f'<iframe srcdoc="{html.escape(self.html, quote=True)}" width="100%" height="{self.HEIGHT}" '
                'style="border: 0"></iframe>')

    def __repr__(self):
        return f"<winnow report, {len(self.html)} bytes; save(path) writes it>"


class Run:
    """A finished run in its directory; winnow.Run(path) opens one of the command line.

    path      the run directory
    summary   summary.json: accuracies, costs, arithmetic, model hash
    hash      the digest of the model
    metrics   what was measured, a row for each round
    findings  findings.json: what the method found out about its clients
    ledger    a row for each sample that noise changed
    """

    def __init__(self, path, module=None):
        self.path = pathlib.Path(path)
        if not (self.path / "experiment.toml").exists():
            raise Error(f"{self.path} is not a run directory: it has no experiment.toml", "run")
        if not (self.path / "summary.json").exists():
            raise Error(f"{self.path} is not finished", "run", f"continue it with winnow.resume('{self.path}')")
        self.summary = self._json("summary.json")
        self._module = module

    def _json(self, name):
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    @property
    def hash(self):
        return self.summary["model_hash"]

    @property
    def metrics(self):
        return _frame.from_csv((self.path / "metrics.csv").read_text(encoding="utf-8"))

    @property
    def findings(self):
        return self._json("findings.json")

    @property
    def ledger(self):
        lines = (self.path / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
        return _frame.from_records([entry for entry in map(json.loads, lines) if "sample" in entry])

    def model(self):
        """The trained model in eval mode. For a network of Winnow's what torch.jit.load() makes of model.pt, with
        attributes mean and std: it takes (x - mean) / std of images x from 0 to 1. For a module of yours the
        module itself, with the trained weights put in."""
        path = self.path / "model.pt"
        if not path.exists():
            raise Error(f"{self.path} has no model.pt", "run",
                        "a method with a model for each client has them in model.safetensors only")
        if self._module is not None:
            return _networks.put_into(self._module, path)
        return torch.jit.load(str(path), map_location="cpu")

    def report(self):
        """The report page of this run."""
        return report(self.path)

    def __repr__(self):
        name, method, last = (self.summary[key] for key in ("name", "method", "last"))
        return f"<winnow run {name}: {method}, {self.summary['rounds']} rounds, last {100 * last:.2f}%, {self.path}>"


def _free_place(name):
    """runs/NAME, or with a number behind where that is taken."""
    place, number = pathlib.Path("runs") / name, 1
    while place.exists():
        number += 1
        place = pathlib.Path("runs") / f"{name}-{number}"
    return place


def _beside(out):
    """Where the network of a run lies: a run directory holds what a run writes, and nothing else."""
    out = pathlib.Path(out)
    return out.with_name(out.name + ".network.pt")


def _saved(path):
    """What Ctrl-C says."""
    if (pathlib.Path(path) / "experiment.toml").exists():
        return KeyboardInterrupt(f"the run is saved; continue it with winnow.resume('{path}')")
    return KeyboardInterrupt("stopped before the run began")


def run(experiment=None, *, data=None, test=None, model=None, out=None, progress=True, seed=None, force=False,
        lanes=0, device="auto", precision="auto", **overrides):
    """Runs an experiment and returns its Run.

    experiment  a TOML file, a dict of the same form, or nothing for the defaults
    data        (x, y), (x, y, clients) or the name of a data set. Images are uint8, or floats from 0 to 1, of
                shape (n, h, w), (n, h, w, c) or (n, c, h, w); labels are whole numbers from 0; clients are
                numbers or texts, and say who holds a sample
    test        (x, y); without, a fifth of every client's samples is drawn to test on
    model       the name of a network, or a torch.nn.Module: it takes normalised images and returns logits
    out         the run directory; without, runs/NAME, with a number behind where that is taken
    progress    a line on standard error, or nothing
    seed        of every random draw in the run
    force       replace an existing run in `out`
    lanes       how many clients train at once; 0: one per core
    overrides   keys of the experiment: rounds=20, train={"lr": 0.1}, **{"train.lr": 0.1}. A dict with a name
                takes the place of a table, one without changes its keys

    Ctrl-C saves the run as of the last round and raises KeyboardInterrupt; winnow.resume() goes on. Errors are
    winnow.Error, but what a rule in Python raises comes out as it is.
    """
    tree, source = _settings.tree_of(experiment, overrides, seed)
    _settings.refuse_sweep(tree)
    arrays = _settings.use_data(tree, data, test)
    name = tree.get("name", "experiment")
    place = pathlib.Path(os.fspath(out)) if out is not None else _free_place(str(name))
    network = _settings.use_model(tree, model, data, _beside(place))
    if network is not None and (force or not place.exists()):
        _beside(place).parent.mkdir(parents=True, exist_ok=True)
        network.save(str(_beside(place)))
    try:
        _core.run(tree, source, str(place), force, _methods.added(), arrays,
                  _settings.runtime(lanes, device, precision), _progress.teller(progress))
    except KeyboardInterrupt:
        raise _saved(place) from None
    return Run(place, model if isinstance(model, torch.nn.Module) else None)


def resume(path, *, data=None, test=None, model=None, progress=True, trust_model=False, lanes=0, device="auto",
           precision="auto"):
    """Goes on with a run that was stopped or killed, and returns its Run; of a finished one at once.

    data, test   what winnow.run() was given, where it was arrays: anything else is refused
    model        the module that winnow.run() was given, for Run.model()
    trust_model  a run with a module of your own executes a TorchScript file, which is a program; say that you
                 trust the one that the run directory names
    """
    arrays = _settings.use_data({}, data, test)
    _settings.check_model(model)
    try:
        _core.resume(os.fspath(path), _methods.added(), arrays,
                     _settings.runtime(lanes, device, precision, trust_model), _progress.teller(progress))
    except KeyboardInterrupt:
        raise _saved(path) from None
    return Run(path, model if isinstance(model, torch.nn.Module) else None)


class Sweep:
    """The runs of a sweep in their directory.

    path      the directory of the sweep
    runs      the finished runs by name
    failures  what went wrong in the others: a list of dicts with run and words
    """

    def __init__(self, path, runs, failures):
        self.path = pathlib.Path(path)
        self.runs = runs
        self.failures = failures

    def table(self, metrics=("best", "last")):
        """As winnow.table()."""
        return table(self.path, metrics)

    def report(self):
        """The report page of all its runs."""
        return report(self.path)

    def __repr__(self):
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<winnow sweep {self.path}: {len(self.runs)} runs{failed}>"


def sweep(experiment, *, data=None, test=None, model=None, out=None, progress=True, force=False, smoke=False,
          lanes=0, device="auto", precision="auto", **overrides):
    """Plays a grid of runs, one after the other, and returns a Sweep. What is finished already is not played again.

    experiment  a TOML file, or a dict, with a grid, rows, columns or methods: {"grid": {"method.name":
                ["fedavg", "median"], "seed": [1, 2]}, ...}
    smoke       a small form of every cell, in about a second each
    The rest is as for winnow.run().
    """
    tree, source = _settings.tree_of(experiment, overrides, None)
    for key in overrides:
        if key in tree.get("grid", {}):
            raise Error(f"{key} is an axis of the grid: it cannot be overridden")
    arrays = _settings.use_data(tree, data, test)
    stem = pathlib.Path(source).stem if source else "sweep"
    place = pathlib.Path(os.fspath(out)) if out is not None else pathlib.Path("runs") / str(tree.get("name", stem))
    network = _settings.use_model(tree, model, data, _beside(place))
    if network is not None and (force or not _beside(place).exists()):
        place.parent.mkdir(parents=True, exist_ok=True)
        network.save(str(_beside(place)))
    folder = str(pathlib.Path(source).absolute().parent) if source else os.getcwd()
    try:
        made = _core.sweep(tree, folder, stem, "" if out is None else str(place), force, smoke, _methods.added(),
                           arrays, _settings.runtime(lanes, device, precision, trust_model=True),
                           _progress.teller(progress))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the sweep is saved; the same call goes on with it") from None
    module = model if isinstance(model, torch.nn.Module) else None
    path = pathlib.Path(made["directory"])
    runs = {entry["id"]: Run(path / entry["id"], module) for entry in made["runs"]
            if (path / entry["id"] / "summary.json").exists()}
    return Sweep(path, runs, made["failures"])


def _paths(paths):
    if isinstance(paths, (str, os.PathLike, Run, Sweep)):
        paths = [paths]
    return [os.fspath(path.path if isinstance(path, (Run, Sweep)) else path) for path in paths]


def table(paths, metrics=("best", "last")):
    """Compares runs and sweeps: a row for each method, setting and metric, with mean, std and the number of runs.

    paths     run or sweep directories, Runs or Sweeps, one or a list
    metrics   best, last, last10, top5, macro_f1, participations, bytes, seconds, flag_precision, cost@80, ...
    Shares are in percent.
    """
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    # Rows and columns that never meet are of no use in a long table.
    return _frame.from_csv(_core.table(_paths(paths), metrics, _methods.added()), ("row", "column", "metric"),
                           lambda row: row["runs"] != "0" or row["unfinished"] != "0")


def report(paths):
    """The page of `winnow report` over runs and sweeps, as table() takes them."""
    return Report(_core.report(_paths(paths), _methods.added()))


def audit(x, y, clients=None, *, by="samples", model=None, out=None, force=False, folds=5, repeat=1, plant=None,
          progress=True, seed=None, lanes=0, device="auto", precision="auto", **overrides):
    """Finds wrong labels, bad images and noisy clients in data by models that never saw them.

    x, y, clients  as for winnow.run(); without clients all samples are one client's
    by             "samples" or "clients": what the rows of the frame are
    model          the name of a network, or a torch.nn.Module; without, LeNet-5
    out            folder for audit.html, audit.csv, samples.csv, relabel.csv and audit.json; without, none
    folds, repeat  number of models, each trained without one part of the clients, and how often
    plant          share of wrong labels planted in a copy to measure how many the audit finds (0.02)
    overrides      keys of an experiment, as for winnow.run(): rounds=20, method="fedprox"

    frame.attrs["audit"] is audit.json, where pandas is there: the share of wrong labels, how good the audit is. What
    the audit warns of is a warning of Python's. Clients that are texts stay texts in the frame, also "01".
    """
    if by not in ("samples", "clients"):
        raise Error(f"by = '{by}': expected samples or clients")
    folder = None if out is None else pathlib.Path(os.fspath(out))
    if folder is not None and not force and (folder / "audit.json").exists():
        raise Error(f"{folder} already holds an audit", "run", "name another folder with out=, or replace it with "
                    "force=True")
    if clients is None:
        clients = [0] * len(x)
    tree = _core.audit_settings({})
    tree, _ = _settings.tree_of(tree, overrides, seed)
    arrays = _settings.use_data(tree, (x, y, clients), None, held_out=0.0)
    with tempfile.TemporaryDirectory() as work:
        network = _settings.use_model(tree, model, (x, y), pathlib.Path(work) / "network.pt")
        if network is not None:
            network.save(tree["model"]["path"])
        try:
            found = _core.audit(tree, {"folds": folds, "repeat": repeat, "plant": plant},
                                -1 if folder is None else 1000, _methods.added(), arrays,
                                _settings.runtime(lanes, device, precision), _progress.teller(progress))
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped; nothing was saved, so the audit must start from the beginning") from None
    for warning in found["json"]["warnings"]:
        warnings.warn(in_python(warning), stacklevel=2)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("audit.csv", "samples.csv", "relabel.csv", "audit.html"):
            (folder / name).write_text(found[name], encoding="utf-8")
        (folder / "audit.json").write_text(json.dumps(found["json"], indent=1) + "\n", encoding="utf-8")
    texts = ["name", "verdict", "kind", "near_duplicate_sets", "missing_classes", "rare_classes"]
    if by == "samples" and not _arrays.are_numbers(clients):
        texts.append("client")
    frame = _frame.from_csv(found["samples.csv" if by == "samples" else "audit.csv"], texts)
    if hasattr(frame, "attrs"):
        frame.attrs["audit"] = found["json"]
    return frame


def methods():
    """All methods by name, with their group and what they do."""
    return _frame.from_records(_core.methods(_methods.added()))


def describe(name):
    """What has that name (a method, network, data set, partition, noise or table of an experiment) and every
    parameter of it, as a dict; its `parameters` are a frame."""
    described = _core.describe(name, _methods.added())
    for entry in described:
        entry["parameters"] = _frame.from_records(entry["parameters"])
    return described[0] if len(described) == 1 else described
