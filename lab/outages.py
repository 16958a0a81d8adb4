"""Which cells does an outage hide?

An outage is a stretch of time in which a sensor's attributes are not there: some of them, or all. Either such as the
history has itself, moved by whole days, so that each falls on its own time of day; or drawn by lot,
as long ones as short ones (their lengths are even on a scale of logarithms), with twice as long a time between them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints

DAY = 86_400.0
LONGER = 3.0  # times the usual interval of a sensor: then it was silent
BETWEEN = 2.0  # times the length of an outage until the next one


class SensorRows(NamedTuple):
    """Rows of sensors, by time."""

    sensor: Ints  # (n,) numbers
    at: Floats  # (n,) seconds
    values: Floats  # (n, d) NaN = missing

    def part(self, which: Any) -> SensorRows:
        """Some of them (a slice or indices)."""
        return SensorRows(self.sensor[which], self.at[which], self.values[which])


class Outages(NamedTuple):
    """When which attributes of a sensor are not there: from `begin` on, until before `end`."""

    sensor: Ints  # (m,)
    begin: Floats  # (m,)
    end: Floats  # (m,)
    cells: Flags  # (m, d)


def hidden(rows: SensorRows, outages: Outages) -> Flags:
    """(n, d) which known cells these outages hide."""
    out = np.zeros(rows.values.shape, np.bool_)
    order = np.lexsort((rows.at, rows.sensor))
    sensor, at = rows.sensor[order], rows.at[order]
    for s in np.unique(outages.sensor).tolist():
        first, last = np.searchsorted(sensor, [s, s + 1])
        own, which = at[first:last], outages.sensor == s
        ends = zip(outages.begin[which], outages.end[which], outages.cells[which], strict=True)
        for begin, end, cells in ends:
            a, b = np.searchsorted(own, [begin, end]) + first
            out[order[a:b]] |= cells
    return out & ~np.isnan(rows.values)


def of_history(past: SensorRows, until: float) -> Outages:
    """Those that a history has: runs of missing values, and times without any row of a sensor; moved so far that the
    last ones reach `until`, by whole days unless it is shorter than one."""
    sensor: list[int] = []
    spans: list[tuple[float, float]] = []
    cells: list[Flags] = []
    d = past.values.shape[1]
    for s in np.unique(past.sensor).tolist():
        own = np.flatnonzero(past.sensor == s)
        at, missing = past.at[own], np.isnan(past.values[own])
        if len(at) < 3:
            continue
        usual = float(np.median(np.diff(at)))
        for k in np.flatnonzero(np.diff(at) > LONGER * usual).tolist():
            spans.append((at[k] + usual / 2, at[k + 1]))
            cells.append(np.ones(d, np.bool_))
        for j in range(d):
            for a, b in _runs(missing[:, j]):
                spans.append((at[a], at[b] if b < len(at) else at[-1] + usual))
                cells.append(np.arange(d) == j)
        sensor += [s] * (len(spans) - len(sensor))
    later = until - past.at[-1]
    if past.at[-1] - past.at[0] >= DAY:
        later = DAY * np.ceil(later / DAY)
    begin, end = np.array(spans).reshape(-1, 2).T + later
    return Outages(np.array(sensor, np.int64), begin, end, np.array(cells, np.bool_).reshape(-1, d))


def _runs(flags: Flags) -> list[tuple[int, int]]:
    """From where until before where flags are set.

    >>> _runs(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def drawn(rows: SensorRows, shortest: float, longest: float, *, whole: bool, seed: int) -> Outages:
    """Outages by lot, of one attribute each, or of `whole` sensors."""
    rng = np.random.default_rng([seed, 60])
    d = rows.values.shape[1]
    sensor, begin, end, cells = [], [], [], []
    for s in np.unique(rows.sensor).tolist():
        own = rows.at[rows.sensor == s]
        now = float(own[0]) + float(rng.uniform(0, BETWEEN)) * shortest
        while now < own[-1]:
            length = float(np.exp(rng.uniform(np.log(shortest), np.log(longest))))
            sensor.append(s)
            begin.append(now)
            end.append(now + length)
            cells.append(np.ones(d, np.bool_) if whole else np.arange(d) == rng.integers(d))
            now += (1 + BETWEEN) * length
    return Outages(np.array(sensor, np.int64), np.array(begin), np.array(end), np.array(cells, np.bool_).reshape(-1, d))
