"""Do the stages report the same whatever an engine does to them? Seeded schedules, judged by the oracle.

A *world* (`sim_streams`) is a stream, cut into batches. It is carried once with nothing going wrong, and what is
reported is held to the oracle. Then it is carried several times by engines on a bad day (`sim_engine`, `sim_folder`),
each by a schedule of its own: every batch reports the same, to the bit. A find is shown with its seed, and with the
rows that it needs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tests.chaos import sim_folder
from tests.chaos.case import SAME, Case, Outcome
from tests.chaos.sim_engine import Faulty, Input, Plain, plan_for, taken
from tests.chaos.sim_folder import folder_world
from tests.chaos.sim_judge import Judge
from tests.chaos.sim_same import Reports, same_reports
from tests.chaos.sim_state import sizes
from tests.chaos.sim_streams import MODES, World, world

PART, FOLDER = "simulation", "folder"
SCHEDULES = 6  # of one stream: the undisturbed run and its judge take as long as two of them
STREAMS = 50  # of one case
FOLDERS = 20  # the same, where each has an output folder
TRIES = 200  # to do without a row of a find
ENDS = 3  # batches without rows at the end, each far later than the one before


def cases(seed: int) -> Iterator[Case]:
    """The cases of one seed: one for each mode."""
    for mode in (*MODES, FOLDER):
        yield Case(PART, "schedules", mode, seed, partial(many, mode, seed, FOLDERS if mode == FOLDER else STREAMS))


def many(mode: str, seed: int, streams: int) -> Outcome:
    """Many streams, each carried by several schedules."""
    faults = 0
    for k in range(streams):
        faults += one(mode, seed * STREAMS + k)
    return Outcome(SAME, faults=faults, schedules=streams * SCHEDULES)


def one(mode: str, seed: int) -> int:
    """One stream and its schedules; how many faults there were. A find names what repeats it."""
    made = folder_world(seed) if mode == FOLDER else world(mode, seed)
    try:
        return tried(mode, made)
    except Exception as error:
        least = shrunk(mode, made, type(error))
        raise AssertionError(
            f"{type(error).__name__}: {error}\n{shown(least)}\n"
            f'repeat: python -c "from tests.chaos.simulation import one; one({mode!r}, {seed})"'
        ) from error


def tried(mode: str, made: World) -> int:
    """The stream with all its schedules."""
    return sim_folder.carried(made, SCHEDULES) if mode == FOLDER else carried(made)


def carried(made: World) -> int:
    """The stream with nothing going wrong, held to the oracle; then on bad days, held to that."""
    with sizes(made.sizes):
        undisturbed, inputs = _undisturbed(made)
        return sum(_disturbed(made, undisturbed, inputs, k) for k in range(SCHEDULES))


def _undisturbed(made: World) -> tuple[list[Reports], list[Input]]:
    plan = plan_for(made, 0)
    engine, judge = Plain(plan, made), Judge(made)
    reports, inputs = [], []
    for number, batch in enumerate([*made.batches, *[[]] * ENDS]):
        if number == made.border:
            engine.move(plan_for(made, number))
        if number >= len(made.batches):
            engine.end(number - len(made.batches))
        inputs.append(taken(engine.plan, made, batch))
        reports.append(engine.batch(inputs[-1]))
        judge.hold_to(number, batch, [part for each in reports[-1].values() for part in each], engine.groups())
    judge.judge()
    if made.flows:
        assert not engine.state, f"all has expired, and this is left: {sorted(engine.state)}"
    return reports, inputs


def _disturbed(made: World, undisturbed: list[Reports], known: list[Input], schedule: int) -> int:
    r = random.Random(f"{made.mode}/{made.seed}/{schedule}")
    engine = Faulty(plan_for(made, 0), made, r)
    for number, batch in enumerate([*made.batches, *[[]] * ENDS]):
        if number == made.border:
            engine.move(plan_for(made, number))
        if number >= len(made.batches):
            engine.end(number - len(made.batches))
        if r.random() < 0.1:
            assert taken(engine.plan, made, batch) == known[number], "a task without state hands on something else"
        report = engine.batch(known[number])
        what = f"schedule {schedule}, batch {number}"
        same_reports(undisturbed[number], report, what)
    if made.flows:
        assert not engine.state, f"{schedule=}: all has expired, and this is left: {sorted(engine.state)}"
    return engine.faults


# --- A find -----------------------------------------------------------------------------------------------------------


def shrunk(mode: str, made: World, kind: type[Exception]) -> World:
    """The same with fewer rows, as long as it fails in that way."""

    def fails(some: World) -> bool:
        try:
            tried(mode, some)
        except kind:
            return True
        except Exception:
            return False
        return False

    places = [
        (b, p, k) for b, batch in enumerate(made.batches) for p, part in enumerate(batch) for k in range(len(part))
    ]
    for b, p, k in reversed(places[-TRIES:]):
        less = [[list(part) for part in batch] for batch in made.batches]
        del less[b][p][k]
        if fails(some := replace(made, batches=less)):
            made = some
    return made


def shown(made: World) -> str:
    """A stream in words."""
    asked = [f"query {name!r}: {query.to_dict()}" for name, query in made.queries.items()]
    rows = [
        f"batch {b}.{p}: {row}" for b, batch in enumerate(made.batches) for p, part in enumerate(batch) for row in part
    ]
    return "\n".join([*asked, f"plan: {dict(made.how)}", f"chunks: {made.chunks}", f"sizes: {made.sizes}", *rows])
