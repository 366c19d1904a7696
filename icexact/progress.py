"""How long work tells how far it is: a callback, or a line on the terminal."""

import sys
import time


class Progress:
    """Counts steps: calls callback(done, total), or draws a line on stderr if that is a terminal and the work is not over within a second.

    callback: a function, None for the line, False for silence.
    """

    def __init__(self, callback, total, what):
        if callback is True:
            callback = None
        if callback is not None and callback is not False and not callable(callback):
            raise TypeError(f"progress is {callback!r}; it must be a function of (done, total), None for a line on a terminal, or False for silence")
        self._callback, self.total, self._what = callback, max(1, total), what
        self._done, self._begun, self._drawn = 0, time.monotonic(), 0.0
        self._line = callback is None and sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, amount=1):
        self._done += amount
        if self._callback:
            self._callback(min(self._done, self.total), self.total)
        elif self._line:
            now = time.monotonic()
            if now - self._begun > 1 and now - self._drawn > 0.1:
                self._drawn = now
                share = min(1.0, self._done / self.total)
                bar = "#" * round(30 * share)
                sys.stderr.write(f"\r\x1b[K{self._what} [{bar:<30}] {100 * share:3.0f} %")
                sys.stderr.flush()
