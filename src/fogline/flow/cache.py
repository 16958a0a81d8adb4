"""Must a group be loaded from its state again, in the worker that saved it a moment ago?

Not if the state is still the one that was saved: its digest is kept beside it, and a worker keeps the last few groups
it saved by their digests. A digest that differs (another worker was faster, a task was retried, the query began again)
finds nothing, and the state is loaded. So the cache saves time and changes nothing that is reported.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b

from fogline.engine.store import AnyGroup
from fogline.flow.ahead import Ahead
from fogline.flow.block import RowBlock
from fogline.flow.turns import Log
from fogline.flow.waiting import Slot

LARGE = 100_000  # bytes of state; smaller ones are loaded as quickly as found
MOST = 32_000_000  # bytes of state cached at once; loaded, a group is about four times as large


@dataclass(slots=True)
class LoadedGroup:
    """A group between two calls."""

    group: AnyGroup
    clock: float
    waiting: RowBlock | None  # rows that are ahead of the clock
    timer: int | None  # in milliseconds of event time
    ahead: Ahead = field(default_factory=Ahead)  # what runs ahead of it
    slots: list[Slot] = field(default_factory=list)  # in which more such rows lie
    sensors: bytes | None = None  # what its sensors have read, where rows get their contexts here; None: as in history
    log: Log | None = None  # where the group lies, if not in its state

    @property
    def empty(self) -> bool:
        """Whether no row of it lives, waits or is held."""
        return self.group.live.alive == 0 and self.waiting is None and not self.slots and self.ahead.held is None

    @property
    def waits(self) -> int:
        """How many rows wait."""
        return (0 if self.waiting is None else len(self.waiting.arrived)) + sum(slot.rows for slot in self.slots)


Mark = tuple[bytes, bytes]  # the digests of a state and of the plan it belongs to
_cached: OrderedDict[Mark, tuple[LoadedGroup, int]] = OrderedDict()


def digest(state: bytes) -> bytes:
    """A digest by which a state is known from others."""
    return blake2b(state, digest_size=16).digest()


def put(mark: Mark, group: LoadedGroup, size: int) -> None:
    """Keep a group whose state has `size` bytes. The oldest go; one that lies in pages stays, however large it is."""
    _cached[mark] = group, size if group.log is None else min(size, MOST)
    while sum(each for _, each in _cached.values()) > MOST:
        _cached.popitem(last=False)


def pop(mark: Mark) -> LoadedGroup | None:
    """The group, if it is there; it is not any more: its next state will be another."""
    return _cached.pop(mark, (None, 0))[0]
