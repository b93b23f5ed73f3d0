"""What the tests of the package share."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import winnow

PROGRAM = os.environ["WINNOW_PROGRAM"]


def tree(**more):
    """A federation that trains in a fraction of a second."""
    return {"name": "small", "rounds": 3, "data": {"name": "synthetic", "samples": 240, "test_samples": 100,
            "size": 16}, "federation": {"clients": 4, "fraction": 0.75}, "model": {"name": "cnn2"},
            "train": {"epochs": 1, "batch_size": 20, "lr": 0.05}, **more}


def squares(count, seed):
    """Images whose class is the corner with a bright square: (n, h, w) bytes, labels."""
    import numpy
    draw = numpy.random.default_rng(seed)
    labels = draw.integers(0, 4, count)
    images = draw.integers(0, 120, (count, 16, 16), dtype=numpy.uint8)
    for image, label in zip(images, labels):
        row, column = 8 * (label // 2), 8 * (label % 2)
        image[row:row + 8, column:column + 8] += 120
    return images, labels


class Case(unittest.TestCase):
    """In a folder of its own, and quiet."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        self.folder = pathlib.Path(folder.name)
        os.chdir(folder.name)

    def run_quietly(self, *arguments, **named):
        return winnow.run(*arguments, progress=False, **named)

    def refused(self, call, *words, kind=None, hint=None):
        with self.assertRaises(winnow.Error) as caught:
            call()
        for word in words:
            self.assertIn(word, caught.exception.args[0])
        if kind is not None:
            self.assertEqual(caught.exception.kind, kind)
        if hint is not None:
            self.assertIn(hint, caught.exception.hint)
            self.assertIn(hint, str(caught.exception))

    def program(self, *arguments, **named):
        """What the command line says."""
        return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True, **named).stdout

    def command_line_hash(self, file, *more):
        return json.loads(self.program("run", str(file), "--out", str(self.folder / f"by-{len(more)}-program"),
                                       "--force", "--json", "--quiet", *more))["model_hash"]

    def python(self, code, **environment):
        """A fresh Python; what was set for this one is not handed on."""
        clean = {name: value for name, value in os.environ.items() if name not in KERNELS}
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={**clean, **environment}, check=False)


KERNELS = {"WINNOW_ARITHMETIC", "OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS",
           "ONEDNN_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA",
           "DNNL_CPU_ISA_HINTS", "DNNL_DEFAULT_FPMATH_MODE"}
