"""How many threads share the work of a large tick, and how?

One, unless FOGLINE_THREADS or an engine (on Spark `spark.task.cpus`) allows more. A loop is cut into as many shares as
there are threads; each share is a compiled call that leaves Python's lock. Threads are started when they are first
needed, by the process that needs them: a process that was forked has none of its parent's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

from fogline.errors import FoglineError

VARIABLE = "FOGLINE_THREADS"
MOST = 1_024  # threads: more are a slip of the pen, and no system starts them
T = TypeVar("T")

_asked: list[int] = []  # what an engine allows
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by process and number


def allow(number: int) -> None:
    """So many threads may be used by this process, unless the environment states otherwise."""
    _asked[:] = [max(1, number)]


def threads() -> int:
    """How many threads share the work."""
    given = os.environ.get(VARIABLE)
    if given is None:
        return _asked[0] if _asked else 1
    if not given.isdecimal() or len(given) > len(str(MOST)) or not 1 <= int(given) <= MOST:
        raise FoglineError(f"{VARIABLE} is {given[:40]!r}; it must be a whole number, from 1 to {MOST:,}.")
    return int(given)


def cuts(n: int, shares: int) -> list[tuple[int, int]]:
    """So many numbers in even shares, none of them empty.

    >>> cuts(7, 3)
    [(0, 2), (2, 4), (4, 7)]
    """
    ends = [n * k // shares for k in range(shares + 1)]
    return [(a, b) for a, b in pairwise(ends) if b > a]


def in_shares(shares: list[tuple[int, int]], work: Callable[[int, int], T]) -> list[T]:
    """The work on each share, at the same time; what came of it, in the order of the shares."""
    if len(shares) < 2:
        return [work(a, b) for a, b in shares]
    this = os.getpid(), len(shares)
    if this not in _pools:
        _pools[this] = ThreadPoolExecutor(len(shares) - 1, thread_name_prefix="fogline")
    others = [_pools[this].submit(work, a, b) for a, b in shares[1:]]
    first = work(*shares[0])
    return [first, *(each.result() for each in others)]
