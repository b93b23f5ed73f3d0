"""The one exception of Winnow."""
import re

# The words of the command line in those of Python.
_WORDS = [(r"--force", "force=True"), (r"--out\b", "out="), (r"--trust-model", "trust_model=True"),
          (r"'winnow resume ([^']*)'", r"winnow.resume('\1')"), (r"'winnow run'", "winnow.run()"),
          (r"use --arithmetic (\w+)", r"set WINNOW_ARITHMETIC=\1 before Python starts"),
          (r"'winnow list methods'", "winnow.methods()"), (r"winnow sweep \S+", "winnow.sweep()"),
          (r"--device", "device="), (r"--precision", "precision="), (r"--folds", "folds="),
          (r"--rounds", "rounds=")]


def in_python(text):
    """What the command line says, in the words of Python."""
    for words, ours in _WORDS:
        text = re.sub(words, ours, text)
    return text


class Error(Exception):
    """What went wrong, in one line, and what to do about it.

    kind   "usage", "experiment", "data", "run", "peer" or "internal": whose fault it is
    hint   what to do, or ""
    """

    def __init__(self, message, kind="usage", hint=""):
        super().__init__(in_python(message))
        self.kind = kind
        self.hint = in_python(hint)

    def __str__(self):
        return self.args[0] + (f"\n  {self.hint}" if self.hint else "")


Error.__module__ = "winnow"
