"""Which readings of a bucket of sensors, or of a group, must be read and written when a few of its sensors speak?

Those of a small bucket lie in its state. Those of a larger one lie in parts of a few sensors each: only parts of
sensors that speak are opened, and only they are written again. The number of parts follows the number of sensors: when
there are too many for them, all are dealt anew into more parts.

A bucket, or a group, holds as many sensors as a state may (`repository.sensors.bound`). Where there are too many, the
parts are opened as well that hold those silent longest: the state knows since when each part's are silent. Parts of
which it does not know count as silent for ever.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.pipeline.plan import Plan
from fogline.repository.sensors.gaps import GapList, joined
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.state import READINGS, Name, SensorState, by_attribute, sensor_names
from fogline.rows.clock import LEAST as NO_VERSION
from fogline.rows.names import KeyText
from fogline.saved import Arrays
from fogline.state.format import from_state, from_value, saved_by, to_state, to_value
from fogline.state.store import StateStore, must_get

SMALL = 1_000  # sensors of a bucket that lie in its state
PART = 64  # sensors of a part, when parts are made; up to twice as many later

_WHAT = "state of sensors"
_GAPS = "gaps "  # before the names of arrays
_VERSIONS, _ROWS = "versions", "rows"
_OLDEST = "oldest"
_READINGS = "readings"  # in the store: parts, of a group under its key

Part = tuple[dict[str, Any], Arrays]


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


def name_of(key: KeyText) -> Name:
    """What the sensor of this key is called in a state."""
    *groups, name = json.loads(key)
    return sensor_names([name], [tuple(groups)])[0]


def group_of(key: KeyText) -> Name:
    """How the names of this group's sensors begin."""
    return sensor_names([None], [tuple(json.loads(key))])[0][:-1]


class Opened(NamedTuple):
    """What was read of a bucket, or of a group."""

    at: int | KeyText
    kept: SensorState  # the readings of the sensors that were asked for, and of others that lie with them
    read: int  # how many sensors that was
    sensors: int  # in the bucket
    parts: int  # 0: all lie in the state
    touched: list[int]  # the parts that were read
    left: int = 0  # so many parts lie there of a plan that the run had before
    oldest: Floats | None = None  # (parts,) when the sensor of each that is silent longest was heard; None: not known


class ReadingStore:
    """Reads and writes the readings of buckets."""

    def __init__(self, plan: Plan, sensors: SensorModel) -> None:
        self.plan, self.sensors = plan, sensors
        self.most = np.inf if sensors.most is None else sensors.most

    def open(self, at: int | KeyText, state: bytes | None, names: Sequence[Name], store: StateStore) -> Opened:
        """The readings of these sensors; without a state, what history knows of this bucket, or of this group."""
        if state is None:
            kept = self._begun(at)
            return Opened(at, kept, len(kept.number), len(kept.number), 0, [])
        if (was := saved_by(self.plan, state)) is not self.plan:
            return self._moved(at, was, state, store)
        header, arrays = from_state(self.plan, state, _WHAT)
        if not header["parts"]:
            return Opened(at, self._held([(header, arrays)]), header["count"], header["count"], 0, [])
        parts, count, oldest = header["parts"], header["count"], arrays.get(_OLDEST)
        found = {k: _read(at, k, store) for k in sorted({self._part(name, parts) for name in names})}
        silent = np.full(parts, -np.inf) if oldest is None else oldest
        self._open_silent(at, found, set(names), count, silent, store)
        kept = self._held(list(found.values()))
        kept.bound.elsewhere = count - len(kept.number)
        if "clock" in header:
            kept.bound.clock, kept.bound.fresh = header["clock"], header["fresh"]
        return Opened(at, kept, len(kept.number), count, parts, sorted(found), oldest=oldest)

    def _open_silent(
        self, at: int | KeyText, found: dict[int, Part], names: set[Name], count: int, oldest: Floats, store: StateStore
    ) -> None:
        """Open the parts of sensors that may have to leave when these come: as many as will be too many then.

        Of those that are not among these, at most so many leave, and they are the ones that are silent longest.
        """
        known = {tuple(each) for header, _ in found.values() for each in header["names"]}
        too_many = count + len(names - known) - self.most
        if too_many <= 0:
            return
        silent = [_silent(each, names) for each in found.values()]
        for k in np.argsort(oldest, kind="stable").tolist():
            if k not in found:
                if sum(int(np.count_nonzero(last < oldest[k])) for last in silent) >= too_many:
                    break
                found[k] = _read(at, k, store)
                silent.append(_silent(found[k], names))

    def save(self, opened: Opened, store: StateStore) -> bytes | None:
        """Write what may have changed; the state, or None if it is as it was."""
        for k in range(opened.left):
            store.delete(_READINGS, _key(opened.at), k)
        kept, parts = opened.kept, opened.parts
        count = opened.sensors + len(kept.number) - opened.read
        if not parts and count <= SMALL:
            header, arrays = _held_by(kept)
            return to_state(self.plan, {"parts": 0, "count": count, **header}, arrays)
        oldest = np.full(parts, -np.inf) if opened.oldest is None else opened.oldest.copy()
        if not parts or count > 2 * PART * parts:
            rest = [k for k in range(parts) if k not in set(opened.touched)]
            whole = self._held([_held_by(kept), _held_by(self._read(opened.at, rest, store))])
            parts = 1 << (count // PART).bit_length()
            oldest = np.full(parts, -np.inf)
            self._write(opened.at, whole, range(parts), oldest, store)
        else:
            self._write(opened.at, kept, opened.touched, oldest, store)
        header = {"parts": parts, "count": count}
        if count > self.most // 2:  # sensors may have to leave soon
            heard = {"clock": kept.bound.clock, "fresh": kept.bound.fresh}
            return to_state(self.plan, header | heard, {_OLDEST: oldest})
        same = (parts, count) == (opened.parts, opened.sensors) and opened.oldest is None
        return None if same else to_state(self.plan, header, {})

    def clear(self, at: int | KeyText, state: bytes, store: StateStore) -> None:
        """What lies beside this state leaves with it."""
        for k in range(from_state(saved_by(self.plan, state), state, _WHAT)[0]["parts"]):
            store.delete(_READINGS, _key(at), k)

    def _begun(self, at: int | KeyText) -> SensorState:
        """What history knows: that of the repository that the run was begun with, so that it is one for all sensors."""
        if (begun := self.plan.begun) is self.plan:
            return self.sensors.state(self._known(at))
        before = store_of(begun)
        return self.sensors.taken_over(before._begun(at), before.sensors.names)

    def _moved(self, at: int | KeyText, was: Plan, state: bytes, store: StateStore) -> Opened:
        """The readings of a state of a plan that the run had before; all are written anew."""
        before, (header, arrays) = store_of(was), from_state(was, state, _WHAT)
        parts = header["parts"]
        there = before._read(at, range(parts), store) if parts else before._held([(header, arrays)])
        kept = self.sensors.taken_over(there, before.sensors.names)
        return Opened(at, kept, len(kept.number), len(kept.number), 0, [], parts)

    def _known(self, at: int | KeyText) -> Sequence[int]:
        known = self.sensors.known_sensors
        if isinstance(at, int):
            return np.flatnonzero(_codes(known) % self.plan.buckets == at).tolist()
        return _by_group(known).get(group_of(at), [])

    def _write(
        self, at: int | KeyText, kept: SensorState, which: Sequence[int], oldest: Floats, store: StateStore
    ) -> None:
        """Write these parts, and since when their sensors are silent."""
        last, parts = kept.last_read(slice(len(kept.names))), len(oldest)
        place = np.array([self._part(name, parts) for name in kept.names], np.int64)
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(parts + 1))
        for k in which:
            here = order[ends[k] : ends[k + 1]]
            store.put(_READINGS, _key(at), k, to_value(*_held_by(kept, here)))
            oldest[k] = last[here].min(initial=np.inf)

    def _read(self, at: int | KeyText, which: Sequence[int], store: StateStore) -> SensorState:
        return self._held([_read(at, k, store) for k in which])

    def _held(self, found: Sequence[Part]) -> SensorState:
        kept = self.sensors.empty_state()
        if not found:
            return kept
        names = [tuple(each) for header, _ in found for each in header["names"]]
        times, values = (np.concatenate([arrays[name] for _, arrays in found]) for name in ("times", "values"))
        if any(_VERSIONS in arrays for _, arrays in found):
            kept.versions = np.concatenate([_versions_of(*each) for each in found])
        gaps = None if kept.gaps is None else joined([_gaps_of(arrays) for _, arrays in found])
        kept.holding(names, times, values, gaps)
        kept.rows = np.concatenate([_rows_of(arrays) for _, arrays in found])
        return kept

    def _part(self, name: Name, parts: int) -> int:
        return _code(name) // self.plan.buckets % parts


def _key(at: int | KeyText) -> KeyText:
    """Under which key parts lie: a bucket has a store of its own."""
    return "" if isinstance(at, int) else at


def _read(at: int | KeyText, part: int, store: StateStore) -> Part:
    return from_value(must_get(store, _READINGS, _key(at), part), _WHAT)


def store_of(plan: Plan) -> ReadingStore:
    """Of a plan that remembers sensors."""
    assert plan.chain is not None
    assert plan.chain.sensors is not None
    return ReadingStore(plan, plan.chain.sensors)


def _held_by(kept: SensorState, which: Ints | None = None) -> tuple[dict[str, Any], Arrays]:
    """Names, readings and gaps of some sensors (None: of all)."""
    names, (times, values) = kept.names, kept.arrays()
    if which is not None:
        names, times, values = [names[k] for k in which.tolist()], times[which], values[which]
    arrays: Arrays = {"times": times, "values": values, _ROWS: kept.rows[: len(kept.number)]}
    if which is not None:
        arrays[_ROWS] = kept.rows[which]
    if kept.versions is not None:
        known = kept.all_versions()
        arrays[_VERSIONS] = known[: len(kept.number)] if which is None else known[which]
    if kept.gaps is not None:
        gaps = kept.open_gaps() if which is None else kept.open_gaps().part(which)
        arrays |= {f"{_GAPS}{name}": each for name, each in gaps._asdict().items()}
    return {"names": names}, arrays


def _versions_of(header: dict[str, Any], arrays: Arrays) -> Ints:
    shape = len(header["names"]), arrays["times"].shape[1]
    return by_attribute(arrays[_VERSIONS], shape[1]) if _VERSIONS in arrays else np.full(shape, NO_VERSION)


def _rows_of(arrays: Arrays) -> Floats:
    """The times of the sensors' newest rows; earlier versions did not keep them."""
    found: Floats = arrays[_ROWS] if _ROWS in arrays else np.full((len(arrays["times"]), READINGS), -np.inf)
    return found


def _gaps_of(arrays: Arrays) -> GapList:
    return GapList(*(arrays[f"{_GAPS}{name}"] for name in GapList._fields))


def _silent(part: Part, speaking: set[Name]) -> Floats:
    """When the sensors of a part were heard last, but for those that speak now."""
    header, arrays = part
    silent = [k for k, each in enumerate(header["names"]) if tuple(each) not in speaking]
    return np.asarray(arrays["times"][silent, :, 0].max(axis=1, initial=-np.inf))
