"""How many seconds went into one part of a tick?"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Stopwatch:
    """Seconds spent on something since it was last read.

    >>> watch = Stopwatch()
    >>> watch.around(max)(1, 3)
    3
    >>> watch.read() > 0, watch.read()
    (True, 0.0)
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """That much more."""
        self.seconds += seconds

    def around(self, function: Callable[Given, Result]) -> Callable[Given, Result]:
        """The same function, timed."""

        def timed(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            began = perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += perf_counter() - began

        return timed

    def read(self) -> float:
        """The seconds, and back to zero."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds
