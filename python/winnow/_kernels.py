"""Fixes the kernels of the CPU before the libraries that choose them are loaded.

The command line starts itself again with the right environment; a Python program cannot. So `import winnow`
sets the variables itself, which has an effect only before torch and NumPy are loaded.
"""
import ctypes
import os
import warnings

from . import _arithmetic
from ._errors import Error

# Read when the program starts, so setting it now would only pretend.
_TUNABLES = "GLIBC_TUNABLES"


def _loaded():
    """The libraries with kernels of their own that are in this process already."""
    try:
        with open("/proc/self/maps") as maps:
            text = maps.read()
    except OSError:
        return False
    return any(name in text for name in ("libtorch", "blas", "libmkl", "libdnnl"))


def fix():
    """Sets the variables, or says in one line that it is too late."""
    try:
        wanted = dict(_arithmetic.environment())
    except RuntimeError as error:
        raise Error(str(error), hint="change the environment variable WINNOW_ARITHMETIC") from None
    missing = {name: value for name, value in wanted.items() if os.environ.get(name, "") != value}
    if not missing:
        return
    if _loaded() or _TUNABLES in missing:
        settings = " ".join(f"{name}={value}" for name, value in missing.items())
        warnings.warn("the kernels of torch are not fixed, so results may differ in their last bits from those of "
                      "the command line: import winnow before torch and numpy, or start Python with "
                      f"{settings}", stacklevel=3)
        return
    os.environ.update(missing)
    if _arithmetic.blas:
        # As the program does: what libblas.so.3 leads to may be a slow one.
        try:
            ctypes.CDLL(_arithmetic.blas, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            pass
