"""What users of the package see; docs/python.md has a walk-through. A test compares it with the functions and classes."""
import os
import pathlib
from typing import Any, Callable, Iterable, Iterator, Literal, Mapping, Optional, Sequence, Union, overload

import numpy.typing
import pandas
import torch

__version__: str

# Settings have the form of an experiment file.
_Settings = Mapping[str, Any]
_Path = Union[str, os.PathLike[str]]
_Array = Union[numpy.typing.ArrayLike, torch.Tensor]
_Clients = Union[Sequence[Union[int, str]], _Array]
_Labelled = Union[tuple[_Array, _Array], tuple[_Array, _Array, Optional[_Clients]]]
_Data = Union[_Labelled, str]
_Network = Union[torch.nn.Module, str, _Settings]
_Model = dict[str, torch.Tensor]
# Where pandas is not installed, a frame is a dict of columns.
_Frame = pandas.DataFrame

class Error(Exception):
    kind: Literal["usage", "experiment", "data", "run", "peer", "internal"]
    hint: str
    def __init__(self, message: str, kind: str = "usage", hint: str = "") -> None: ...

class Upload:
    client: int
    samples: int
    model: _Model
    weight: float
    def __init__(self, client: int, samples: float, weight: float, model: _Model, layout: Any) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...

_Select = Callable[[Sequence[int], int, int], Iterable[int]]
_Weights = Callable[[_Model, list[Upload]], Iterable[float]]

class Method:
    function: Callable[..., _Model]
    name: str
    summary: str
    select: Optional[_Select]
    weights: Optional[_Weights]
    parameters: dict[str, Union[bool, int, float, str]]
    def __init__(self, function: Callable[..., _Model], name: str, summary: str, select: Optional[_Select],
                 weights: Optional[_Weights]) -> None: ...
    def __call__(self, *arguments: Any, **named: Any) -> _Model: ...
    def choose(self, clients: Sequence[int], count: int, round: int) -> list[int]: ...
    def play(self, global_model: _Model, uploads: Iterable[tuple[Any, ...]], layout: Any, round: int,
             state: dict[str, Any], parameters: Mapping[str, Any]) -> _Model: ...

@overload
def method(function: Callable[..., _Model], *, name: Optional[str] = None, select: Optional[_Select] = None,
           weights: Optional[_Weights] = None) -> Method: ...
@overload
def method(function: None = None, *, name: Optional[str] = None, select: Optional[_Select] = None,
           weights: Optional[_Weights] = None) -> Callable[[Callable[..., _Model]], Method]: ...
def mean(uploads: Iterable[Upload], weights: Optional[Iterable[float]] = None) -> _Model: ...

class Report:
    HEIGHT: int
    html: str
    def __init__(self, page: str) -> None: ...
    def save(self, path: _Path) -> _Path: ...

class Run:
    path: pathlib.Path
    summary: dict[str, Any]
    def __init__(self, path: _Path, module: Optional[torch.nn.Module] = None) -> None: ...
    @property
    def hash(self) -> str: ...
    @property
    def metrics(self) -> _Frame: ...
    @property
    def findings(self) -> dict[str, Any]: ...
    @property
    def ledger(self) -> _Frame: ...
    def model(self) -> torch.nn.Module: ...
    def report(self) -> Report: ...

class Sweep:
    path: pathlib.Path
    runs: dict[str, Run]
    failures: list[dict[str, Any]]
    def __init__(self, path: pathlib.Path, runs: dict[str, Run], failures: list[dict[str, Any]]) -> None: ...
    def table(self, metrics: Union[str, Sequence[str]] = ("best", "last")) -> _Frame: ...
    def report(self) -> Report: ...

_Paths = Union[_Path, Run, Sweep, Iterable[Union[_Path, Run, Sweep]]]

def run(experiment: Optional[Union[_Path, _Settings]] = None, *, data: Optional[_Data] = None,
        test: Optional[tuple[_Array, _Array]] = None, model: Optional[_Network] = None, out: Optional[_Path] = None,
        progress: bool = True, seed: Optional[int] = None, force: bool = False, lanes: int = 0, device: str = "auto",
        precision: str = "auto", **overrides: Any) -> Run: ...
def resume(path: _Path, *, data: Optional[_Data] = None, test: Optional[tuple[_Array, _Array]] = None,
           model: Optional[_Network] = None, progress: bool = True, trust_model: bool = False, lanes: int = 0,
           device: str = "auto", precision: str = "auto") -> Run: ...
def sweep(experiment: Union[_Path, _Settings], *, data: Optional[_Data] = None,
          test: Optional[tuple[_Array, _Array]] = None, model: Optional[_Network] = None,
          out: Optional[_Path] = None, progress: bool = True, force: bool = False, smoke: bool = False,
          lanes: int = 0, device: str = "auto", precision: str = "auto", **overrides: Any) -> Sweep: ...
def table(paths: _Paths, metrics: Union[str, Sequence[str]] = ("best", "last")) -> _Frame: ...
def report(paths: _Paths) -> Report: ...
def audit(x: _Array, y: _Array, clients: Optional[_Clients] = None, *, by: Literal["samples", "clients"] = "samples",
          model: Optional[_Network] = None, out: Optional[_Path] = None, force: bool = False, folds: int = 5,
          repeat: int = 1, plant: Optional[float] = None, progress: bool = True, seed: Optional[int] = None,
          lanes: int = 0, device: str = "auto", precision: str = "auto", **overrides: Any) -> _Frame: ...
def methods() -> _Frame: ...
def describe(name: str) -> Union[dict[str, Any], list[dict[str, Any]]]: ...
