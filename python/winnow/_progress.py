"""One line on standard error that is renewed, or nothing."""
import sys
import time


class Line:
    """Renewed in place on a terminal and in a notebook, and now and then in a log."""

    SECONDS = {True: 0.1, False: 10.0}

    def __init__(self):
        self._shown = None
        self._width = 0
        self._best = 0.0
        self._began = time.monotonic()
        # A notebook shows a carriage return as a terminal does.
        self._live = sys.stderr is not None and (sys.stderr.isatty() or type(sys.stderr).__name__ == "OutStream")

    def __call__(self, event):
        kind = event["event"]
        if kind == "started":
            lanes = event["lanes"]
            self._print(f"{event['name']}: {event['method']} on {event['data']}, {event['clients']} clients, "
                        f"{event['rounds']} rounds, {lanes} {'lane' if lanes == 1 else 'lanes'} on {event['device']}")
            for notice in event["notices"]:
                self._print(notice)
            if event["rounds_done"]:
                self._print(f"continuing after round {event['rounds_done']}")
        elif kind == "round":
            done, of, accuracy = event["round"], event["rounds"], event["accuracy"]
            text = f"round {done}/{of}"
            if accuracy is not None:
                self._best = max(self._best, accuracy)
                text += f"  accuracy {100 * accuracy:.2f}%  best {100 * self._best:.2f}%"
            self._renew(text, last=done == of)
        elif kind == "run":
            self._renew(f"{event['done']}/{event['runs']} runs", last=False)
        elif self._live and self._width:
            self._print("")

    def _renew(self, text, last):
        now = time.monotonic()
        if not last and self._shown is not None and now - self._shown < self.SECONDS[self._live]:
            return
        self._shown = now
        if not self._live:
            self._print(text)
            return
        self._write("\r" + text.ljust(self._width))
        self._width = len(text)

    def _print(self, text):
        self._write(text + "\n")
        self._width = 0

    def _write(self, text):
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            pass  # nobody listens: no reason to stop a run


def teller(progress):
    return Line() if progress else None
