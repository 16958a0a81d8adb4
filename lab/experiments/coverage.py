"""Does the truth lie where Fogline thinks it does, however long the sensor has been silent?

Cells of a stream that follows the history are hidden, imputed by the repository's own chain, and compared. Of what is
imputed the central 80 % count, from the 10 % point to the 90 % point: the share of truths in there, by the age of the
last known value; apart for what is imputed as the row comes, from the past alone, and after the sensor was read again.

A distribution of few values has no stretch of exactly 80 %. So there are two shares: `inside`, of truths between the
two points or on them; and `covered`, in which a truth that lies on an end counts by that part of its weight that
belongs to the 80 %. If every distribution is right, `covered` is 0.8, and `inside` is that or more.

An outage is a time in which a sensor's attributes are not there: some of them, or all. Lengths of drawn outages are
even on a scale of logarithms, with twice as long a time between them. There are four kinds:

- `history`: as they occur in the history itself, moved by whole days, so that each falls on its own time of day;
- `runs`: one attribute of a sensor at a time, long and short by lot;
- `silent`: all attributes of a sensor at once;
- `returns`: a sensor that sends no rows at all, and whose first row thereafter lacks a value.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from fogline.arrays import BOUNDS_ONLY, Flags, Floats, Ints, UncertainRows
from fogline.impute.chain import Chain
from fogline.impute.protocol import Evidence
from fogline.kernels.sensors import AGE, PARTS
from fogline.query import Query
from fogline.repository.sensors.state import sensor_names
from fogline.rows.table import RowSource
from lab.case import AT, SENSOR, LabError, Settings, data_set_of, read
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import between, sets
from lab.imputers.sensors import default_chain
from lab.revising import look_back, noted, points

# -------------------------------------------------------------------------------------------------------------- outages


LONGER = 3.0  # times the usual interval of a sensor: then it was silent
APART = 2.0  # times the length of an outage until the next one


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
        now = float(own[0]) + float(rng.uniform(0, APART)) * shortest
        while now < own[-1]:
            length = float(np.exp(rng.uniform(np.log(shortest), np.log(longest))))
            sensor.append(s)
            begin.append(now)
            end.append(now + length)
            cells.append(np.ones(d, np.bool_) if whole else np.arange(d) == rng.integers(d))
            now += (1 + APART) * length
    return Outages(np.array(sensor, np.int64), np.array(begin), np.array(end), np.array(cells, np.bool_).reshape(-1, d))


# ------------------------------------------------------------------------------------------------------- the experiment


SETS = ("smart_building_rooms", "intel", "beijing")
MODES = ("history", "runs", "silent", "returns")
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
EDGES = (5 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR)
SLOW_EDGES = {"beijing": (HOUR, 3 * HOUR, 6 * HOUR, DAY, 3 * DAY)}
YEAR = {"beijing": 12 * 8_760}  # rows of the year before; else HISTORY
HISTORY, STREAM = 120_000, 90_000
QUICK = (20_000, 15_000)
SHARE = 0.8
LOW, HIGH = 0.72, 0.88  # what is wanted of the share
ENOUGH = 200  # cells of a bucket; fewer mean little
ARRIVAL, AFTER = "arrival", "after revision"


class ImputedCells(NamedTuple):
    """Hidden cells, what is true, and what was imputed."""

    row: Ints  # (q,)
    attribute: Ints  # (q,)
    start: Ints  # (q,) into the pools
    size: Ints  # (q,)
    value: Floats  # the pools
    weight: Floats


def trials(scope: Scope) -> list[Knobs]:
    return [{"set": name, "outages": mode} for name in sets(scope, SETS) for mode in MODES]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name, mode = str(knobs["set"]), str(knobs["outages"])
    names, past, rows = _parts(name, scope)
    edges = SLOW_EDGES.get(name, EDGES)
    rows, gaps = _hide(mode, past, rows, edges)
    if not gaps.any():
        return []  # a history without outages
    query = Query(attributes=dict.fromkeys(names, "max"), id=SENSOR, time=AT, lifetime=1)
    chain = default_chain(_table(past, names), query)
    if chain.sensors is None:
        raise LabError(f"{name}: nothing was learnt of its sensors.")
    return covered(chain, rows, gaps, edges)


def _parts(name: str, scope: Scope) -> tuple[tuple[str, ...], SensorRows, SensorRows]:
    """Attributes, history, and what follows; real nulls stay."""
    assert scope.data is not None
    names, values, extra = read(data_set_of(name), scope.data, Settings(nulls=True))
    _, sensor = np.unique(np.array(extra[SENSOR].to_pylist()), return_inverse=True)
    whole = SensorRows(sensor, np.asarray(extra[AT].to_numpy(), np.float64), values)
    before, after = QUICK if scope.quick else (YEAR.get(name, HISTORY), STREAM)
    if len(values) < before + after // 2:
        raise LabError(f"{name} has {len(values):,} rows, too few for a history of {before:,} and a stream after it.")
    return names, whole.part(slice(0, before)), whole.part(slice(before, before + after))


def _hide(mode: str, past: SensorRows, rows: SensorRows, edges: tuple[float, ...]) -> tuple[SensorRows, Flags]:
    """The rows, some perhaps without those that do not come, and which cells are hidden."""
    usual = float(np.median(np.diff(rows.at[rows.sensor == rows.sensor[0]])))
    if mode == "history":
        return rows, hidden(rows, of_history(past, rows.at[-1]))
    outages = drawn(rows, usual, 2 * edges[-1], whole=mode != "runs", seed=1)
    gaps = hidden(rows, outages)
    if mode != "returns":
        return rows, gaps
    gone = np.asarray(gaps.any(axis=1))
    left = rows.part(~gone)
    return left, _first_after(rows, gone, left)


def _first_after(rows: SensorRows, gone: Flags, left: SensorRows) -> Flags:
    """(left, d) one attribute, in turn, of the first row that a sensor sends after its silence."""
    order = np.lexsort((rows.at, rows.sensor))
    back = np.zeros(len(gone), np.bool_)
    again = gone[order][:-1] & ~gone[order][1:] & (rows.sensor[order][:-1] == rows.sensor[order][1:])
    back[order[1:][again]] = True
    first = np.flatnonzero(back[~gone])
    chosen = np.full(len(left.at), -1)
    chosen[first] = np.arange(len(first)) % left.values.shape[1]
    return np.asarray((chosen[:, None] == np.arange(left.values.shape[1])) & ~np.isnan(left.values))


def _table(rows: SensorRows, names: tuple[str, ...]) -> pa.Table:
    columns = {name: pa.array(rows.values[:, j], from_pandas=True) for j, name in enumerate(names)}
    return pa.table({SENSOR: [str(each) for each in rows.sensor.tolist()], AT: rows.at, **columns})


# --------------------------------------------------------------------------------------------------------- imputing


def covered(chain: Chain, rows: SensorRows, gaps: Flags, edges: tuple[float, ...]) -> list[dict[str, Scalar]]:
    """Shares of truths, by attribute, age, and whether the sensor had been read again."""
    assert chain.sensors is not None
    shown = np.where(gaps, np.nan, rows.values)
    sensor = sensor_names([str(each) for each in rows.sensor.tolist()])
    context, later = look_back(chain.sensors.state(), sensor, rows.at, shown, gaps, chain.opens)
    which = np.flatnonzero(gaps.any(axis=1))
    source = RowSource(_table(rows._replace(values=shown), chain.query.names))
    known = np.full((len(shown), chain.width), np.nan)
    known[which] = chain.evidence(Evidence(shown, np.isnan(shown), source, None, context).part(which))
    after, better = noted(chain, known, later, rows.at, shown)
    boxes = chain.bound(points(shown[which]), known[which], gaps[which])
    ages = context[which][:, : shown.shape[1] * PARTS].reshape(len(which), shown.shape[1], PARTS)[:, :, AGE]
    found = {ARRIVAL: _imputed(chain, boxes, known[which], gaps[which])}
    clipped = chain.tally.clipped
    found[AFTER] = _imputed(chain, boxes, after[which], gaps[which] & better[which])
    clipped = (chain.tally.clipped - clipped) / max(len(found[AFTER].row), 1)
    return [
        {**line, "when": when, "clipped_percent": 100 * clipped if when == AFTER else 0.0}
        for when, cells in found.items()
        for line in _lines(cells, rows.values[which], ages, edges, chain.query.names)
    ]


def _imputed(chain: Chain, uncertain: UncertainRows, known: Floats, cells: Flags) -> ImputedCells:
    """What is imputed for these cells, within the boxes that they have."""
    bounds_only = uncertain._replace(
        start=np.where(cells & (uncertain.lo < uncertain.hi), BOUNDS_ONLY, uncertain.start)
    )
    full = chain.fill(bounds_only, known, bounds_only.start == BOUNDS_ONLY)
    row, j = np.nonzero(cells & ~np.isnan(full.lo))
    start, size = full.start[row, j], full.size[row, j]
    one = start < 0  # single values lie in no pool: append them
    start = np.where(one, len(full.value) + np.cumsum(one) - 1, start)
    value = np.concatenate((full.value, full.lo[row, j][one]))
    return ImputedCells(
        row, j, start, np.where(one, 1, size), value, np.concatenate((full.weight, np.ones(int(one.sum()))))
    )


# ---------------------------------------------------------------------------------------------------------- counting


def shares(cells: ImputedCells, truth: Floats) -> tuple[Flags, Floats, Floats]:
    """(q,) whether each truth lies between the points, how much of it counts, and how far they are apart."""
    cut = (1 - SHARE) / 2
    ends = np.cumsum(cells.size)
    first = ends - cells.size
    at = np.repeat(cells.start - first, cells.size) + np.arange(ends[-1] if len(ends) else 0)
    value, weight = cells.value[at], cells.weight[at]
    owner = np.repeat(np.arange(len(truth)), cells.size)
    total = np.cumsum(weight)
    upto = total - np.repeat(total[first] - weight[first], cells.size)  # within its own list
    low = value[first + np.bincount(owner, upto < cut - 1e-6, len(truth)).astype(np.int64)]
    high = value[first + np.bincount(owner, upto < 1 - cut - 1e-6, len(truth)).astype(np.int64)]
    near = np.abs(value - truth[owner]) <= 1e-9 * np.maximum(np.abs(value), 1.0)
    below = np.bincount(owner, np.where((value < truth[owner]) & ~near, weight, 0.0), len(truth))
    own = np.bincount(owner, np.where(near, weight, 0.0), len(truth))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.clip((np.minimum(below + own, 1 - cut) - np.maximum(below, cut)) / own, 0.0, 1.0)
    whole = np.where(own > 0, part, ((below >= cut - 1e-6) & (below < 1 - cut - 1e-6)).astype(np.float64))
    slack = 1e-9 * np.maximum(np.abs(truth), 1.0)
    return (truth >= low - slack) & (truth <= high + slack), whole, high - low


def _lines(
    cells: ImputedCells, truth: Floats, ages: Floats, edges: tuple[float, ...], names: tuple[str, ...]
) -> list[dict[str, Scalar]]:
    """A row per attribute and bucket of ages."""
    inside, whole, width = shares(cells, truth[cells.row, cells.attribute])
    age = ages[cells.row, cells.attribute]
    bucket = np.where(np.isnan(age), len(edges) + 1, np.searchsorted(edges, age, "left"))
    labels = _labels(edges)
    spread = np.nanstd(truth, axis=0)
    rows: list[dict[str, Scalar]] = []
    for j, name in enumerate(names):
        for k in range(len(labels)):
            these = (cells.attribute == j) & (bucket == k)
            if these.any():
                rows.append(
                    {"attribute": name, "age": labels[k], "order": k, "n": int(these.sum()),
                     "inside": float(inside[these].mean()), "covered": float(whole[these].mean()),
                     "width": float(width[these].mean() / max(spread[j], 1e-12))}
                )  # fmt: skip
    return rows


def _labels(edges: tuple[float, ...]) -> list[str]:
    """
    >>> _labels((300.0, 7200.0))
    ['≤ 5 min', '5 min–2 h', '> 2 h', 'unknown']
    """
    shown = [_shown(edge) for edge in edges]
    return [f"≤ {shown[0]}", *(f"{a}–{b}" for a, b in pairwise(shown)), f"> {shown[-1]}", "unknown"]


def _shown(seconds: float) -> str:
    for unit, length in (("d", DAY), ("h", HOUR)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds / MINUTE:g} min"


# ----------------------------------------------------------------------------------------------------------- reading


def pooled(frame: pd.DataFrame) -> pd.DataFrame:
    """All attributes of a set together, by outages, time of imputing and age."""
    weighed = frame.assign(**{name: frame[name] * frame["n"] for name in ("inside", "covered")})
    keys = ["set", "outages", "when", "order", "age"]
    sums = weighed.groupby(keys, sort=False)[["n", "inside", "covered"]].sum().reset_index()
    return sums.assign(inside=sums["inside"] / sums["n"], covered=sums["covered"] / sums["n"])


def read_coverage(frame: pd.DataFrame) -> Reading:
    all_together = pooled(frame)
    buckets = all_together[(all_together["n"] >= ENOUGH) & (all_together["age"] != "unknown")]
    if buckets.empty:
        return Reading("beyond the paper", "Too little was measured to conclude anything.")
    parts = []
    for when, rows in buckets.groupby("when", sort=False):
        good = rows["covered"].between(LOW, HIGH)
        far = [f"{r.set}, {r.outages}, {r.age} {r.covered:.2f}" for r in rows[~good].itertuples()]
        parts.append(
            f"{when}: {good.sum()} of {len(good)} buckets with {ENOUGH} cells or more have a share of {LOW:g} to "
            f"{HIGH:g} (all: {between(rows['covered'], '{:.2f}')})" + (f"; others: {', '.join(far)}" if far else "")
        )
    clipped = frame[frame["when"] == AFTER].groupby(["set", "outages"], sort=False)["clipped_percent"].mean()
    text = f"Truths in the central {100 * SHARE:.0f} %, {'. '.join(parts)}."
    if len(clipped):
        text += f" Of what hindsight gives, {between(clipped, '{:.2f}')} % lay outside the first box, and was clipped."
    return Reading("beyond the paper", text)


COVERAGE = Experiment(
    timed=False,
    name="coverage",
    title="Coverage by age",
    figure="beyond the paper",
    question="Does the truth lie within the central 80 % of what is imputed, however old the last value is?",
    claim="",
    trials=trials,
    measure=measure,
    plots=tuple(
        Plot(f"{title}, {when}, outages: {mode}", "age", column, "set", "attribute",
             where={"when": when, "outages": mode}, kind="table")
        for mode in MODES
        for when in (ARRIVAL, AFTER)
        for title, column in (("Share covered", "covered"), ("Cells", "n"))
    ),
    read=read_coverage,
)  # fmt: skip
