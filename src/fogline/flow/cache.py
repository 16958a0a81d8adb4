"""Must a group be read from its state again, in the worker that wrote it a moment ago?

Not if the state is still the one that was written: its digest is kept beside it, and a worker remembers the last few
groups it wrote by their digests. A digest that differs (another worker was faster, a task was retried, the query began
again) finds nothing, and the state is read. So what is remembered saves time and changes nothing that is told.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from fogline.monitor import Monitor

LARGE = 100_000  # bytes of state; smaller ones are read as quickly as found
MOST = 32_000_000  # bytes of state remembered at once; awake, a group is about four times as large


@dataclass(slots=True)
class Awake:
    """A group between two calls."""

    monitor: Monitor
    waiting: list[pa.Table]  # rows that are ahead of the clock
    timer: int | None  # in milliseconds of event time


Mark = tuple[bytes, str]
_remembered: OrderedDict[Mark, tuple[Awake, int]] = OrderedDict()


def digest(state: bytes) -> bytes:
    return blake2b(state, digest_size=16).digest()


def remember(mark: Mark, group: Awake, size: int) -> None:
    """`mark`: the digest of its state, which has `size` bytes, and the repository it asks. The oldest are forgotten."""
    _remembered[mark] = group, size
    while sum(each for _, each in _remembered.values()) > MOST:
        _remembered.popitem(last=False)


def recall(mark: Mark) -> Awake | None:
    """The group, if it is there; it is not any more: its next state will be another."""
    return _remembered.pop(mark, (None, 0))[0]
