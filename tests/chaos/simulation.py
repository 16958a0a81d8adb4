"""Do the stages report the same whatever an engine does to them? Seeded schedules, judged by the oracle.

A *world* (`sim_streams`) is a stream, cut into batches. It is carried once with nothing going wrong, and what is reported
is held to the oracle. Then it is carried several times by engines on a bad day (`sim_engine`), each by a schedule of its
own: every batch reports the same, to the bit. A find is shown with its seed, and with the rows that it needs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from fogline.flow.journal import Journal
from tests.chaos.case import SAME, Case, Outcome
from tests.chaos.sim_engine import Faulty, Input, Plain, Reports, plan_for, same_reports, sizes, taken
from tests.chaos.sim_judge import Judge
from tests.chaos.sim_streams import MODES, World, world

PART = "simulation"
SCHEDULES = 3  # of one stream
STREAMS = 50  # of one case
ENDS = 3  # batches without rows at the end, each far later than the one before


def cases(seed: int) -> Iterator[Case]:
    """The cases of one seed: one for each mode."""
    for mode in MODES:
        yield Case(PART, "schedules", mode, seed, partial(many, mode, seed))


def many(mode: str, seed: int, streams: int = STREAMS) -> Outcome:
    """Many streams, each carried by several schedules."""
    faults = 0
    for k in range(streams):
        faults += one(mode, seed * STREAMS + k)
    return Outcome(SAME, faults=faults, schedules=streams * SCHEDULES)


def one(mode: str, seed: int) -> int:
    """One stream and its schedules; how many faults there were. A find names what repeats it."""
    made = world(mode, seed)
    try:
        return carried(made)
    except Exception as error:
        least = shrunk(made, type(error))
        raise AssertionError(
            f"{type(error).__name__}: {error}\n{told(least)}\n"
            f'repeat: python -c "from tests.chaos.simulation import one; one({mode!r}, {seed})"'
        ) from error


def carried(made: World) -> int:
    """The stream with nothing going wrong, held to the oracle; then on bad days, held to that."""
    with sizes(made.sizes):
        undisturbed, inputs = _undisturbed(made)
        return sum(_disturbed(made, undisturbed, inputs, k) for k in range(SCHEDULES))


Inputs = dict[bool, list[Input]]  # whether groups lie on shelves


def _undisturbed(made: World) -> tuple[list[Reports], Inputs]:
    plan = plan_for(made, 0)
    engine, judge = Plain(plan, made), Judge(made)
    reports, inputs = [], []
    for number, batch in enumerate([*made.batches, *[[]] * ENDS]):
        if number == made.border:
            engine.move(plan_for(made, number))
        if number >= len(made.batches):
            engine.end(number - len(made.batches))
        inputs.append(taken(engine.plan, made, batch, shelved=False))
        reports.append(engine.batch(inputs[-1]))
        judge.hold_to(number, batch, [part for each in reports[-1].values() for part in each], engine.groups())
    judge.judge()
    if made.flows:
        assert not engine.state, f"all has expired, and this is left: {sorted(engine.state)}"
    return reports, {False: inputs}


def _disturbed(made: World, undisturbed: list[Reports], inputs: Inputs, schedule: int) -> int:
    r = random.Random(f"{made.mode}/{made.seed}/{schedule}")
    shelved = r.random() < 0.5 and bool(made.queries and next(iter(made.queries.values())).by)
    engine = Faulty(plan_for(made, 0), made, r, shelved=shelved)
    known = inputs.get(shelved)
    fresh = []
    for number, batch in enumerate([*made.batches, *[[]] * ENDS]):
        if number == made.border:
            engine.move(plan_for(made, number))
        if number >= len(made.batches):
            engine.end(number - len(made.batches))
        if known is None or r.random() < 0.1:
            fresh.append(taken(engine.plan, made, batch, shelved=shelved))
            assert known is None or fresh[-1] == known[number], "a task without state hands on something else"
        else:
            fresh.append(known[number])
        report = engine.batch(fresh[-1])
        what = f"schedule {schedule}, batch {number}"
        if shelved:
            same_reports(by_group(undisturbed[number]), by_group(report), what)
        else:
            same_reports(undisturbed[number], report, what)
    inputs[shelved] = fresh
    if made.flows:
        assert not engine.state, f"{schedule=}: all has expired, and this is left: {sorted(engine.state)}"
    return engine.faults


def by_group(reports: Reports) -> Reports:
    """What is reported of each group, wherever it lay, in its order."""
    out: dict[str, list[Any]] = {}
    for report in reports.values():
        for kind, table in report:
            names = [name for name in ("query", "g") if name in table.schema.names]
            values = (
                list(zip(*(table.column(name).to_pylist() for name in names), strict=True)) or [()] * table.num_rows
            )
            for value in dict.fromkeys(values):
                which = [k for k, each in enumerate(values) if each == value]
                out.setdefault(f"{kind} {value}", []).append(table.take(which))
    return {name: [(name.split()[0], pa.concat_tables(tables))] for name, tables in out.items()}


# --- A find -----------------------------------------------------------------------------------------------------------


def shrunk(made: World, kind: type[Exception], tries: int = 200) -> World:
    """The same with fewer rows, as long as it fails in that way."""

    def fails(some: World) -> bool:
        try:
            carried(some)
        except kind:
            return True
        except Exception:
            return False
        return False

    places = [
        (b, p, k) for b, batch in enumerate(made.batches) for p, part in enumerate(batch) for k in range(len(part))
    ]
    for b, p, k in reversed(places[-tries:]):
        less = [[list(part) for part in batch] for batch in made.batches]
        del less[b][p][k]
        if fails(some := replace(made, batches=less)):
            made = some
    return made


def told(made: World) -> str:
    """A stream in words."""
    asked = [f"query {name!r}: {query.to_dict()}" for name, query in made.queries.items()]
    rows = [
        f"batch {b}.{p}: {row}" for b, batch in enumerate(made.batches) for p, part in enumerate(batch) for row in part
    ]
    return "\n".join([*asked, f"plan: {dict(made.how)}", f"chunks: {made.chunks}", f"sizes: {made.sizes}", *rows])


__all__ = ["Journal", "cases", "many", "one"]
