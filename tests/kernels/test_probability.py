"""Does every kernel that works out a probability agree with one naive function?

The naive function is the product formula over instances, in fractions. Each kernel has a small adapter that gives it
the same rows, and one of `EXACT`, `BOUNDS` or `WHAT_IF`; where kernels are merged, adapters go.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import fogline as fl
from fogline.arrays import Batch, Sums, objects
from fogline.engine.live import LiveSet, ManyLiveSets
from fogline.engine.table import once
from fogline.kernels.compile import kernel
from fogline.kernels.instances import (
    dominates_instances,
    empty_grid,
    instance_weights,
    merge_instances,
    own_grid,
    scratch_for,
)
from fogline.kernels.sums import account, total
from fogline.kernels.sweep import all_instances
from tests.kernels.common import packed

Cell = tuple[tuple[int, int], ...]  # (value, weight), the larger value is better
Case = tuple[tuple[Cell, ...], ...]  # rows
CLOSE = 1e-9
ALPHA = 0.3  # of questions and flips
ROOM = 4096  # instances of a row, at most

# --- The naive function -----------------------------------------------------------------------------------------------


@cache
def instances(row: tuple[Cell, ...]) -> tuple[tuple[tuple[int, ...], Fraction], ...]:
    """Every combination of values of a row, with its weight."""
    whole = prod(sum(weight for _, weight in cell) for cell in row)
    return tuple((tuple(v for v, _ in pairs), Fraction(prod(w for _, w in pairs), whole)) for pairs in product(*row))


@cache
def chance(row: tuple[Cell, ...], x: tuple[int, ...]) -> Fraction:
    """Pr{row dominates x}."""
    found = [weight for y, weight in instances(row) if y != x and all(b >= a for a, b in zip(x, y, strict=True))]
    return sum(found, Fraction(0))


@cache
def naive(rows: Case, o: int) -> Fraction:
    """The probability that none of the other rows dominates row o."""
    others = [row for k, row in enumerate(rows) if k != o]
    return sum((weight * prod(1 - chance(row, x) for row in others) for x, weight in instances(rows[o])), Fraction(0))


def known(rows: Case, o: int, j: int, value: Any) -> Case:
    """The rows, if cell j of row o were this value."""
    row = (*rows[o][:j], ((value, 1),), *rows[o][j + 1 :])
    return (*rows[:o], row, *rows[o + 1 :])


# --- Rows -------------------------------------------------------------------------------------------------------------


def _cell(r: random.Random, top: int, most: int) -> Cell:
    values = sorted(r.sample(range(top + 1), r.randint(1, min(most, top + 1))))
    return tuple((value, r.choice((1, 2, 5))) for value in values)


def drawn(seed: int, d: int, count: int, top: int, most: int) -> Case:
    r = random.Random(f"probability/{seed}/{d}/{count}/{top}/{most}")
    return tuple(tuple(_cell(r, top, most) for _ in range(d)) for _ in range(count))


def complete(*values: int) -> tuple[Cell, ...]:
    return tuple(((value, 1),) for value in values)


COIN: Cell = ((0, 1), (5, 1))
STRONG, WEAK = ((0, 1), (10, 10**7)), ((0, 10**7), (10, 1))
CASES: dict[str, Case] = {
    "one row": drawn(0, 2, 1, 5, 3),
    "all equal": (complete(1, 1),) * 4,
    "equal distributions": ((((0, 1), (3, 2)), ((1, 1), (2, 1))),) * 5,
    "a certain dominator": (*drawn(1, 2, 5, 3, 3), complete(9, 9)),
    "a certain dominator of some instances": (*drawn(2, 2, 4, 3, 3), (COIN, COIN), complete(2, 2)),
    "zeros": ((((-5, 1), (0, 1), (5, 1)),), (((0, 1),),), (((-5, 1), (5, 1)),), (((0, 3), (9, 1)),)),
    "nearly certain dominators": ((((5, 1), (20, 1)),), *(((STRONG,),) * 3)),
    "hardly dominators": ((((5, 1), (20, 1)),), *(((WEAK,),) * 50)),
    "many dominators": ((((0, 1), (6, 1)), ((1, 1), (7, 2))), *drawn(5, 2, 150, 8, 2)),
    "many instances": drawn(6, 3, 5, 30, 11),
}
for _seed in range(4):
    CASES |= {f"ties, {d} attributes, {_seed}": drawn(_seed, d, 6, 2, 3) for d in (1, 2, 3)}
    CASES |= {f"spread, {d} attributes, {_seed}": drawn(_seed, d, 9, 40, 5) for d in (1, 2, 3)}
    CASES |= {f"complete rows, {_seed}": drawn(_seed, 2, 12, 6, 1)}


# --- Adapters: rows -> the probability of each row that the kernel gives one ------------------------------------------


@kernel
def _left_by(uncertain, o, near, signs):
    """What rows that come and go leave of row o."""
    scratch, grid = scratch_for(ROOM), own_grid(uncertain, o)
    places = instance_weights(grid, scratch.weight)
    weight = scratch.weight[:places].copy()
    sums = Sums(np.zeros((places, 2), np.int64), np.zeros(places, np.int64))
    for k in range(near.shape[0]):
        if dominates_instances(uncertain, near[k], o, grid, scratch):
            account(scratch.chance, places, signs[k], sums, 0)
    return total(weight, places, sums, 0)


@kernel
def _swept(uncertain, o, near, values):
    """The same over merged instances, kind by kind."""
    grid = empty_grid(values, uncertain.lo.shape[1])
    merge_instances(uncertain, o, near, grid)
    return all_instances(uncertain, o, near, grid)


def _clouds(rows: Case) -> Any:
    return packed([[list(cell) for cell in row] for row in rows])


def _others(rows: Case, o: int) -> Any:
    return np.array([k for k in range(len(rows)) if k != o], np.int64)


def by_sums(rows: Case) -> dict[int, float]:
    uncertain = _clouds(rows)
    ones = np.ones(len(rows) - 1, np.int64)
    return {o: _left_by(uncertain, o, _others(rows, o), ones) for o in _few(rows)}


def by_sums_that_some_have_left(rows: Case) -> dict[int, float]:
    """Every row comes, those of the second half go and come again."""
    uncertain, out = _clouds(rows), {}
    for o in _few(rows):
        others = _others(rows, o)
        again = others[len(others) // 2 :]
        near, one = np.concatenate((others, again, again[::-1])), np.ones(len(others), np.int64)
        out[o] = _left_by(uncertain, o, near, np.concatenate((one, -np.ones_like(again), np.ones_like(again))))
    return out


def by_sweep(rows: Case) -> dict[int, float]:
    uncertain = _clouds(rows)
    return {o: _swept(uncertain, o, _others(rows, o), int(uncertain.size.sum())) for o in _few(rows)}


def by_once(rows: Case) -> dict[int, float]:
    which, probability, _ = once(_clouds(rows), 0.0)
    return _all(rows, dict(zip(which.tolist(), probability.tolist(), strict=True)))


def by_many(rows: Case) -> dict[int, float]:
    """Two groups side by side: the rows, and the rows once more."""
    both, n, d = (*rows, *rows), len(rows), len(rows[0])
    uncertain, zeros = _clouds(both), np.zeros(2 * n)
    coming = Batch(objects(list(range(2 * n))), zeros, zeros + 1.0, uncertain.lo, np.empty((2 * n, 0)), uncertain)
    groups = ManyLiveSets(d, 0.0, groups=2)
    changes = groups.step(np.array([0, 1]), np.zeros(2), coming, np.array([0, n, 2 * n]))
    ids = groups.slots.id[groups.slots.groups["first"][changes["group"]] + changes["slot"]]
    found = dict(zip(ids.tolist(), changes["probability"].tolist(), strict=True))
    first = _all(rows, {o: p for o, p in found.items() if o < n})
    assert first == _all(rows, {o - n: p for o, p in found.items() if o >= n})
    return first


def _monitor(rows: Case, ticks: int = 1, alpha: float = 0.0, **more: Any) -> fl.Monitor:
    """The rows, at so many ticks; where there are several, others come and go in between."""
    names = [f"a{j}" for j in range(len(rows[0]))]
    ways = dict.fromkeys(names, "max")
    monitor = fl.Monitor(fl.Query(ways, id="id", time="t", expires="e", alpha=alpha, **more))
    for t in range(ticks):
        some = [(o, 99) for o in range(len(rows)) if o % ticks == t]
        some += [(o, t + 1) for o in range(len(rows)) if o % ticks == (t + 1) % ticks] if ticks > 1 else []
        values = [
            {"id": o if e == 99 else 1000 + o, "t": t, "e": e} | dict(zip(names, map(list, rows[o]), strict=True))
            for o, e in some
        ]
        monitor.advance(t, values)
    monitor.advance(ticks)
    return monitor


def _answer(rows: Case, monitor: fl.Monitor) -> dict[int, float]:
    return _all(rows, {row["id"]: row["probability"] for row in monitor.answer().to_pylist()})


def by_a_tick(rows: Case) -> dict[int, float]:
    return _answer(rows, _monitor(rows))


def by_several_ticks(rows: Case) -> dict[int, float]:
    return _answer(rows, _monitor(rows, 4))


def by_latest(rows: Case) -> dict[int, float]:
    return _answer(rows, _monitor(rows, latest=True))


def by_latest_over_ticks(rows: Case) -> dict[int, float]:
    return _answer(rows, _monitor(rows, 4, latest=True))


def by_explain(rows: Case) -> dict[int, float]:
    """Also of rows that are out."""
    monitor = _monitor(rows, alpha=0.9)
    return {o: each.probability for o in _few(rows) for each in monitor.explain(o) if each.live}


def _few(rows: Case) -> range:
    """Of many rows only a few are asked about."""
    return range(min(len(rows), 10))


def _all(rows: Case, found: dict[int, float]) -> dict[int, float]:
    """What is not in is surely dominated."""
    return {o: found.get(o, 0.0) for o in _few(rows)}


EXACT: dict[str, Callable[[Case], dict[int, float]]] = {
    "sums": by_sums,
    "sums, some have left": by_sums_that_some_have_left,
    "merged and swept": by_sweep,
    "once": by_once,
    "many groups": by_many,
    "a tick": by_a_tick,
    "several ticks": by_several_ticks,
    "latest": by_latest,
    "latest, several ticks": by_latest_over_ticks,
    "explained": by_explain,
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("by", EXACT)
def test_the_probability_is_the_naive_one(by, case):
    rows = CASES[case]
    found = EXACT[by](rows)
    assert found or by == "explained"
    for o, p in found.items():
        assert p == pytest.approx(float(naive(rows, o)), abs=CLOSE), f"row {o} of {rows}"


# --- Bounds -----------------------------------------------------------------------------------------------------------


def by_bracket(rows: Case) -> Iterator[tuple[int, float, float]]:
    """Rows of very many instances, as more than two are here."""
    n, live, zeros = len(rows), LiveSet(len(rows[0]), 0.0, exact_limit=2), np.zeros(len(rows))
    uncertain = _clouds(rows)
    live.tick(0.0, Batch(objects(list(range(n))), zeros, zeros + 1.0, uncertain.lo, np.empty((n, 0)), uncertain))
    alive = live.slots.alive()
    for slot in alive[:10].tolist():
        low, high, _ = live.bracket(slot, alive, until_out=False)
        yield live.slots.id[slot], low, high


BOUNDS: dict[str, Callable[[Case], Iterator[tuple[int, float, float]]]] = {"bracket": by_bracket}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("by", BOUNDS)
def test_the_bounds_hold_the_naive_probability_and_are_narrow(by, case):
    rows = CASES[case]
    for o, low, high in BOUNDS[by](rows):
        assert low - CLOSE <= float(naive(rows, o)) <= high + CLOSE, f"row {o} of {rows}"
        assert high - low < 1e-3


# --- If a cell were known ---------------------------------------------------------------------------------------------

Claim = tuple[str, float, float]  # what is claimed, its number, and the naive one


def of_flips(rows: Case) -> Iterator[Claim]:
    """The probability of a row at the value of a cell, its own or a dominator's, at which it enters or leaves."""
    monitor = _monitor(rows, alpha=ALPHA)
    for o in _few(rows):
        for each in monitor.explain(o):
            for flip in each.flips:
                j, step = int(flip.attribute[1:]), {">": 0.5, "<": -0.5}.get(flip.side, 0)  # all values are integers
                then = float(naive(known(rows, flip.id, j, flip.value + step), o))
                yield f"{o} at {flip}", flip.probability, then
                inside, now = then > ALPHA + CLOSE, float(naive(rows, o)) > ALPHA + CLOSE
                yield f"{o} flips at {flip}", float(flip.to), float(inside)
                yield f"{o} was not so before {flip}", float(not flip.to), float(now)


def moved(rows: Case, o: int, k: int, j: int) -> float:
    """The expected |P then - P now| of row o, if cell j of row k were known."""
    cell, now = rows[k][j], naive(rows, o)
    whole = sum(weight for _, weight in cell)
    return float(sum(Fraction(w, whole) * abs(naive(known(rows, k, j, v), o) - now) for v, w in cell))


def of_the_decisive_cell(rows: Case) -> Iterator[Claim]:
    """By how much the cell that matters most moves a row; and that no other one moves it more."""
    monitor = _monitor(rows, alpha=ALPHA)
    for o in _few(rows):
        for each in filter(lambda each: each.live, monitor.explain(o)):
            most = max(moved(rows, o, k, j) for k, row in enumerate(rows) for j in range(len(row)))
            if each.decisive is None:
                yield f"nothing moves {o}", 0.0, most
            else:
                j = int(each.decisive.attribute[1:])
                yield f"{each.decisive} moves {o}", each.decisive.moves, moved(rows, o, each.decisive.id, j)
                yield f"{each.decisive} moves {o} most", each.decisive.moves, most


def of_questions(rows: Case) -> Iterator[Claim]:
    """How many rows are expected to enter or leave if a cell were known."""
    near = [o for o in range(len(rows)) if abs(float(naive(rows, o)) - ALPHA) < 1e-6]
    for asked in _monitor(rows, alpha=ALPHA).ask_next(5).to_pylist() if not near else ():
        k, j = asked["id"], int(asked["attribute"][1:])
        whole, expected = sum(weight for _, weight in rows[k][j]), Fraction(0)
        for value, weight in rows[k][j]:
            then = known(rows, k, j, value)
            turned = sum((naive(rows, o) > ALPHA) != (naive(then, o) > ALPHA) for o in range(len(rows)))
            expected += Fraction(weight, whole) * turned
        yield f"{asked}", asked["changes"], float(expected)


WHAT_IF: dict[str, Callable[[Case], Iterator[Claim]]] = {
    "flips": of_flips,
    "decisive": of_the_decisive_cell,
    "questions": of_questions,
}
SMALL = [name for name, rows in CASES.items() if len(rows) <= 15 and name != "many instances"]


@pytest.mark.parametrize("case", SMALL)
@pytest.mark.parametrize("by", WHAT_IF)
def test_what_would_be_if_a_cell_were_known_is_the_naive_probability_then(by, case):
    for claim, found, true in WHAT_IF[by](CASES[case]):
        assert found == pytest.approx(true, abs=1e-6), f"{claim}, of {CASES[case]}"
