"""Federated learning that survives noisy clients, from Python.

    import winnow                     # before torch and numpy: it fixes their kernels
    run = winnow.run("experiment.toml", data=(x, y), test=(x_test, y_test), rounds=20)
    run.metrics, run.summary, run.model(), run.report()

docs/python.md has a walk-through.
"""
from . import _kernels

_kernels.fix()

import torch as _torch  # noqa: E402,F401  its libraries must be there before ours

from ._core import __version__  # noqa: E402
from ._errors import Error  # noqa: E402
from ._methods import Method, Upload, mean, method  # noqa: E402
from ._runs import (Report, Run, Sweep, audit, describe, methods, report, resume, run, sweep,  # noqa: E402
                    table)

__all__ = ["Error", "Method", "Report", "Run", "Sweep", "Upload", "audit", "describe", "mean", "method", "methods",
           "report", "resume", "run", "sweep", "table", "__version__"]
