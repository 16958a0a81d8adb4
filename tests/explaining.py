"""Is an explanation true? Each of its numbers is worked out again as the definitions read, in fractions.

A value that is stated to flip a row is put in its cell, and the oracle asked whether the row is in then; and with the
value just before it, whether it is not. Missing cells are tried with every value that they may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import fogline as fl
from tests import oracle
from tests.contracts import CLOSE

EPSILON = Fraction(1, 1024)  # closer than two values of the streams that are tried
LISTED = 10


@dataclass(frozen=True)
class Asked:
    """A row's window, as the oracle has it, and what of it a monitor still holds."""

    attributes: Mapping[str, str]
    alpha: Fraction
    window: Sequence[oracle.Cloud]
    held: Sequence[oracle.Cloud]

    def inside(self, p: Fraction) -> bool:
        return p > self.alpha + (Fraction(CLOSE) if self.alpha else 0)


def known(cloud: oracle.Cloud, j: int, value: Fraction) -> oracle.Cloud:
    """The cloud with one cell known."""
    cells = tuple(((value, Fraction(1)),) if k == j else each for k, each in enumerate(cloud.cells))
    return replace(cloud, cells=cells, beaten={})


def with_cell(window: Sequence[oracle.Cloud], o: oracle.Cloud, of: oracle.Cloud, j: int, value: Fraction) -> Fraction:
    """P(o), if one cell, its own or another's, has a value."""
    changed = known(of, j, value)
    return oracle.probability(changed if of is o else o, [changed if each is of else each for each in window])


def check(found: fl.types.Explanation, asked: Asked) -> None:
    """Every statement of an explanation."""
    [o] = [each for each in asked.window if (each.id, each.arrived) == (found.id, found.arrived)]
    p = oracle.probability(o, asked.window)
    assert found.inside == asked.inside(p)
    assert (found.probability_error, found.approximate) == (0.0, False)
    assert abs(p - Fraction(found.probability)) <= CLOSE
    check_front(found, o, p, asked)
    check_rivals(found, o, asked)
    check_own_flips(found, o, asked)
    check_other_flips(found, o, p, asked)
    check_decisive(found, o, p, asked)
    assert found.sentence.endswith(".")
    assert "None" not in found.sentence


def front_of(o: oracle.Cloud, p: Fraction, asked: Asked) -> str:
    """By the possible worlds: is it in under every combination of values?"""
    if p == 1:
        return "certain"
    return "" if p == 0 else "likely" if asked.inside(p) else "possible"


def check_front(found: fl.types.Explanation, o: oracle.Cloud, p: Fraction, asked: Asked) -> None:
    assert found.certainty == front_of(o, p, asked)


def opened(asked: Asked) -> list[oracle.Cloud]:
    """The rows that no other surely beats."""
    return [c for c in asked.window if not any(oracle.chance(n, c) == 1 for n in asked.window if n is not c)]


def check_rivals(found: fl.types.Explanation, o: oracle.Cloud, asked: Asked) -> None:
    there = {(c.id, c.arrived): oracle.chance(c, o) for c in opened(asked) if c is not o}
    listed = [(each.id, each.arrived) for each in found.beaten_by]
    assert set(listed) <= set(there)
    for each in found.beaten_by:
        assert abs(there[each.id, each.arrived] - Fraction(each.probability)) <= CLOSE
    assert [each.probability for each in found.beaten_by] == sorted(
        (e.probability for e in found.beaten_by), reverse=True
    )
    if len(listed) < LISTED:
        assert set(listed) == {name for name, chance in there.items() if chance > 0}


def oriented(asked: Asked, flip: fl.types.Flip) -> tuple[int, Fraction, str]:
    """The attribute's number, and value and side of a flip where larger is better."""
    turned = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
    names = list(asked.attributes)
    if asked.attributes[flip.attribute] == "max":
        return names.index(flip.attribute), Fraction(flip.value), flip.side
    return names.index(flip.attribute), -Fraction(flip.value), turned[flip.side]


def check_own_flips(found: fl.types.Explanation, o: oracle.Cloud, asked: Asked) -> None:
    flips = {each.attribute: each for each in found.flips if each.own}
    for j, name in enumerate(asked.attributes):
        if name not in flips:
            values = sorted({value for c in asked.held for value, _ in c.cells[j]} | {Fraction(0)})
            tried = [v + e for v in (values[0] - 1, *values, values[-1] + 1) for e in (-EPSILON, 0, EPSILON)]
            for value in tried:
                assert asked.inside(with_cell(asked.held, o, o, j, value)) == found.inside
            continue
        flip = flips[name]
        _, value, side = oriented(asked, flip)
        assert flip.to is not found.inside
        assert (flip.id, flip.arrived) == (o.id, o.arrived)
        step = EPSILON if side in (">", ">=") else -EPSILON
        beyond = value if side in (">=", "<=") else value + step
        before = value - step if side in (">=", "<=") else value
        for window in (asked.window, asked.held):
            assert asked.inside(with_cell(window, o, o, j, beyond)) is flip.to
            assert asked.inside(with_cell(window, o, o, j, beyond + 100 * step * 1024)) is flip.to
        assert asked.inside(with_cell(asked.held, o, o, j, before)) is found.inside
        if flip.to:  # nothing that was forgotten counts
            assert asked.inside(with_cell(asked.window, o, o, j, before)) is found.inside
        assert abs(with_cell(asked.held, o, o, j, beyond) - Fraction(flip.probability)) <= CLOSE
        assert (flip.chance is not None) == flip.missing
        if flip.chance is not None:
            chance = sum(weight for v, weight in o.cells[j] if (v - value) * step > 0 or v == beyond)
            assert abs(chance - Fraction(flip.chance)) <= CLOSE


def check_other_flips(found: fl.types.Explanation, o: oracle.Cloud, p: Fraction, asked: Asked) -> None:
    stated = {(each.id, each.arrived, each.attribute): each for each in found.flips if not each.own}
    true = 0
    for c in asked.window:
        for j, name in enumerate(asked.attributes):
            if c is o or len(c.cells[j]) < 2:
                continue
            then = {v: with_cell(asked.window, o, c, j, v) for v, _ in c.cells[j]}
            flipping = [v for v, q in then.items() if asked.inside(q) != found.inside]
            true += bool(flipping)
            flip = stated.get((c.id, c.arrived, name))
            if flip is None:
                assert not flipping or len(stated) == LISTED
                continue
            _, value, side = oriented(asked, flip)
            assert sorted(flipping) == sorted(v for v in then if (v >= value if side == ">=" else v <= value))
            assert value in flipping
            assert flip.missing
            assert flip.to is not found.inside
            assert abs(then[value] - Fraction(flip.probability)) <= CLOSE
            assert flip.chance is not None
            assert abs(sum(w for v, w in c.cells[j] if v in flipping) - Fraction(flip.chance)) <= CLOSE
    assert len(stated) == min(true, LISTED)


def moves(o: oracle.Cloud, p: Fraction, asked: Asked) -> Iterator[tuple[tuple[Any, Any, str], Fraction]]:
    """The expected |P then - P|, of every missing cell."""
    for c in asked.window:
        for j, name in enumerate(asked.attributes):
            if len(c.cells[j]) > 1:
                then = [(weight, with_cell(asked.window, o, c, j, value)) for value, weight in c.cells[j]]
                yield (c.id, c.arrived, name), sum((w * abs(q - p) for w, q in then), Fraction(0))


def check_decisive(found: fl.types.Explanation, o: oracle.Cloud, p: Fraction, asked: Asked) -> None:
    true = dict(moves(o, p, asked))
    most = max(true.values(), default=Fraction(0))
    if found.decisive is None:
        assert most <= CLOSE
        return
    stated = found.decisive
    assert abs(Fraction(stated.moves) - most) <= CLOSE
    assert abs(true[stated.id, stated.arrived, stated.attribute] - most) <= CLOSE
    assert stated.own == ((stated.id, stated.arrived) == (o.id, o.arrived))


def check_all(monitor: fl.Monitor, windows: Mapping[Any, Sequence[oracle.Cloud]], question: Any) -> int:
    """Explain every live row of a monitor, and check it. How many were there?"""
    count = 0
    for key, group in monitor.groups.items():
        slots = group.live.slots
        window = windows.get(key, ())
        names = [(slots.id[slot], monitor._show(slots.columns.arrived[slot])) for slot in slots.alive()]
        held = [c for c in window if (c.id, c.arrived) in set(names)]
        assert len(held) == len(names)
        for found in {name: each for name in names for each in monitor.explain(name[0]) if each.by == key}.values():
            check(found, Asked(question.attributes, question.alpha, window, held))
            count += 1
    return count
