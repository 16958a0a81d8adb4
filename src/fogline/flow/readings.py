"""Which readings of a bucket of sensors, or of a group, must be read and written when a few of its sensors speak?

Those of a small bucket lie in its state. Those of a larger one lie in parts, cells of a few sensors each: only parts of
sensors that speak are opened, and only they are written again. The number of parts follows the number of sensors: when
there are too many for them, all are dealt anew into more parts.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.flow.cells import Cells
from fogline.flow.plan import Plan
from fogline.flow.state import from_cell, from_state, saved_by, to_cell, to_state
from fogline.packing import Arrays
from fogline.repository.sensors.gaps import GapList, joined
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.state import MOST, Name, SensorState, sensor_names
from fogline.rows.keys import Key
from fogline.rows.version import LEAST as NO_VERSION

SMALL = 1_000  # sensors of a bucket that lie in its state
PART = 64  # sensors of a part, when parts are made; up to twice as many later

_WHAT = "state of sensors"
_GAPS = "gaps "  # before the names of arrays
_VERSIONS = "versions"


def bucket_of(name: Name, buckets: int) -> int:
    """In which bucket the sensor of this name lies, today and after a restart."""
    return _code(name) % buckets


def _code(name: Name) -> int:
    return zlib.crc32(json.dumps(name).encode())


@lru_cache(maxsize=4)
def _codes(names: tuple[Name, ...]) -> Ints:
    """The same of many: worked out once for all buckets of a worker."""
    return np.array([_code(name) for name in names], np.int64)


@lru_cache(maxsize=4)
def _by_group(names: tuple[Name, ...]) -> dict[Name, list[int]]:
    """The sensors of each group."""
    found: dict[Name, list[int]] = {}
    for k, name in enumerate(names):
        found.setdefault(name[:-1], []).append(k)
    return found


def name_of(key: Key) -> Name:
    """What the sensor of this key is called in a state."""
    *groups, name = json.loads(key)
    return sensor_names([name], [tuple(groups)])[0]


def group_of(key: Key) -> Name:
    """How the names of this group's sensors begin."""
    return sensor_names([None], [tuple(json.loads(key))])[0][:-1]


class Opened(NamedTuple):
    """What was read of a bucket."""

    kept: SensorState  # the readings of the sensors that were asked for, and of others that lie with them
    read: int  # how many sensors that was
    sensors: int  # in the bucket
    parts: int  # 0: all lie in the state
    touched: list[int]  # the parts that were read
    left: int = 0  # so many parts lie there of a plan that the run had before


class ReadingStore:
    """Reads and writes the readings of buckets."""

    def __init__(self, plan: Plan, sensors: SensorModel, *, most: int = MOST) -> None:
        self.plan, self.sensors, self.most = plan, sensors, most

    def open(self, at: int | Key, state: bytes | None, names: Sequence[Name], cells: Cells) -> Opened:
        """The readings of these sensors; without a state, what history knows of this bucket, or of this group."""
        if state is None:
            kept = self._begun(at)
            return Opened(kept, len(kept.number), len(kept.number), 0, [])
        if (was := saved_by(self.plan, state)) is not self.plan:
            return self._moved(was, state, cells)
        header, arrays = from_state(self.plan, state, _WHAT)
        if not header["parts"]:
            return Opened(self._held([(header, arrays)]), header["count"], header["count"], 0, [])
        touched = sorted({self._part(name, header["parts"]) for name in names})
        kept = self._read(touched, cells)
        return Opened(kept, len(kept.number), header["count"], header["parts"], touched)

    def save(self, opened: Opened, cells: Cells) -> bytes | None:
        """Write what may have changed; the state, or None if it is as it was."""
        for k in range(opened.left):
            cells.remove(k)
        kept, parts = opened.kept, opened.parts
        count = opened.sensors + len(kept.number) - opened.read
        if not parts and count <= SMALL:
            header, arrays = _held_by(kept)
            return to_state(self.plan, {"parts": 0, "count": count, **header}, arrays)
        if not parts or (count > 2 * PART * parts and count <= self.most):
            rest = [k for k in range(parts) if k not in set(opened.touched)]
            whole = self._held([_held_by(kept), _held_by(self._read(rest, cells))])
            parts = 1 << (count // PART).bit_length()
            count -= self._write(whole, range(parts), parts, count, cells)
        else:
            count -= self._write(kept, opened.touched, parts, count, cells)
        same = (parts, count) == (opened.parts, opened.sensors)
        return None if same else to_state(self.plan, {"parts": parts, "count": count}, {})

    def clear(self, state: bytes, cells: Cells) -> None:
        """What lies beside this state leaves with it."""
        for k in range(from_state(saved_by(self.plan, state), state, _WHAT)[0]["parts"]):
            cells.remove(k)

    def _begun(self, at: int | Key) -> SensorState:
        """What history knows: that of the repository that the run was begun with, so that it is one for all sensors."""
        if (begun := self.plan.begun) is self.plan:
            return self.sensors.state(self._known(at))
        before = store_of(begun)
        return self.sensors.taken_over(before._begun(at), before.sensors.names)

    def _moved(self, was: Plan, state: bytes, cells: Cells) -> Opened:
        """The readings of a state of a plan that the run had before; all are written anew."""
        before, (header, arrays) = store_of(was), from_state(was, state, _WHAT)
        parts = header["parts"]
        there = before._read(range(parts), cells) if parts else before._held([(header, arrays)])
        kept = self.sensors.taken_over(there, before.sensors.names)
        return Opened(kept, len(kept.number), len(kept.number), 0, [], parts)

    def _known(self, at: int | Key) -> Sequence[int]:
        known = self.sensors.known_sensors
        if isinstance(at, int):
            return np.flatnonzero(_codes(known) % self.plan.buckets == at).tolist()
        return _by_group(known).get(group_of(at), [])

    def _write(self, kept: SensorState, which: Sequence[int], parts: int, count: int, cells: Cells) -> int:
        """Write these parts; how many sensors were forgotten, because there are too many in the bucket."""
        names, times = list(kept.number), kept.arrays()[0]
        place = np.array([self._part(name, parts) for name in names], np.int64)
        order, forgotten = np.argsort(place, kind="stable"), 0
        ends = np.searchsorted(place[order], np.arange(parts + 1))
        for k in which:
            here = order[ends[k] : ends[k + 1]]
            if count > self.most and len(here) > self.most // parts:
                stay = _heard_last(times[here], len(here) // 2)
                forgotten += len(here) - len(stay)
                here = here[stay]
            cells.put(k, to_cell(*_held_by(kept, here)))
        return forgotten

    def _read(self, which: Sequence[int], cells: Cells) -> SensorState:
        return self._held([from_cell(cells.get(k), _WHAT) for k in which])

    def _held(self, found: Sequence[tuple[dict[str, Any], Arrays]]) -> SensorState:
        kept = self.sensors.empty_state()
        if not found:
            return kept
        names = [tuple(each) for header, _ in found for each in header["names"]]
        times, values = (np.concatenate([arrays[name] for _, arrays in found]) for name in ("times", "values"))
        if any(_VERSIONS in arrays for _, arrays in found):
            kept.versions = np.concatenate([_versions_of(*each) for each in found])
        if kept.gaps is None:
            return kept.holding(names, times, values)
        return kept.holding(names, times, values, joined([_gaps_of(arrays) for _, arrays in found]))

    def _part(self, name: Name, parts: int) -> int:
        return _code(name) // self.plan.buckets % parts


def store_of(plan: Plan) -> ReadingStore:
    """Of a plan that remembers sensors."""
    assert plan.chain is not None
    assert plan.chain.sensors is not None
    return ReadingStore(plan, plan.chain.sensors)


def _held_by(kept: SensorState, which: Ints | None = None) -> tuple[dict[str, Any], Arrays]:
    """Names, readings and gaps of some sensors (None: of all)."""
    names, (times, values) = list(kept.number), kept.arrays()
    if which is not None:
        names, times, values = [names[k] for k in which.tolist()], times[which], values[which]
    arrays: Arrays = {"times": times, "values": values}
    if kept.versions is not None:
        known = np.append(kept.versions, np.full(max(len(kept.number) - len(kept.versions), 0), NO_VERSION))
        arrays[_VERSIONS] = known[: len(kept.number)] if which is None else known[which]
    if kept.gaps is not None:
        gaps = kept.open_gaps() if which is None else kept.open_gaps().part(which)
        arrays |= {f"{_GAPS}{name}": each for name, each in gaps._asdict().items()}
    return {"names": names}, arrays


def _versions_of(header: dict[str, Any], arrays: Arrays) -> Ints:
    found: Ints = arrays[_VERSIONS] if _VERSIONS in arrays else np.full(len(header["names"]), NO_VERSION)
    return found


def _gaps_of(arrays: Arrays) -> GapList:
    return GapList(*(arrays[f"{_GAPS}{name}"] for name in GapList._fields))


def _heard_last(times: Floats, count: int) -> Any:
    """So many of the sensors, in their order: those that were heard last."""
    return np.sort(np.argsort(-times[:, :, 0].max(axis=1), kind="stable")[:count])
