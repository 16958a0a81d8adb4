"""Why are rows in the answer, or why not? For all rows of a group that are asked for, by one compiled call.

Only open rows can dominate others: what a row dominated until later may dominate, its dominator surely dominates. But
should a member become worse, a row that it alone dominated would count again; so these rows are looked at, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fogline.arrays import BOUNDS_ONLY, SHARED, Flags, Floats, Ints, UncertainRows
from fogline.engine.answer import words_of
from fogline.engine.group import Group
from fogline.engine.live import LiveSet
from fogline.engine.revise import fill_within
from fogline.engine.skyband import SkybandLiveSet
from fogline.errors import RowsError
from fogline.impute.chain import Chain
from fogline.impute.written import imputed_cells
from fogline.kernels.dominance import dominates
from fogline.kernels.skyband import likely_dominators
from fogline.kernels.states import DOMINATED, IN, OUT
from fogline.kernels.static import IMPOSSIBLE
from fogline.kernels.uncertain import ends
from fogline.kernels.what_if import FROM, NEVER, Why, look_into, sole_dominators
from fogline.query import TOLERANCE, Query, as_text
from fogline.results import Decisive, Dominator, Explanation, Flip, Outside, UncertainRow
from fogline.rows.changes import GroupKey

Show = Callable[[float], Any]
BEATEN = "a row that lives at least as long surely beats it"
UNDECIDED = "alpha = {:g} lies within what is known of its probability, whose middle decides"
DOMINATORS = 10  # so many are named, of a row in a skyband
WORK = 4_000_000  # instances times dominators, some tenths of a second
_OPPOSITE = {">=": "<", ">": "<=", "<": ">=", "<=": ">"}
_TURNED = {">=": "<=", ">": "<", "<": ">", "<=": ">="}


def named(id: Any, groups: Mapping[GroupKey, Group]) -> list[tuple[GroupKey, int]]:
    """The slots of the rows with this id, by their groups; if there are none, of those whose id is written the same."""
    there = [
        (key, int(slot), group.live.slots.id[slot])
        for key, group in groups.items()
        for slot in group.live.slots.alive()
    ]
    return [there[k][:2] for k in _meant(id, [name for *_, name in there])]


def _meant(id: Any, names: Sequence[Any]) -> list[int]:
    """Which of the names are this id; if none is, which are written the same. An error where those are several."""
    same = [k for k, name in enumerate(names) if name == id and isinstance(name, bool) == isinstance(id, bool)]
    if same:
        return same
    text = as_text(id)
    alike = [k for k, name in enumerate(names) if as_text(name) == text]
    if len({names[k] for k in alike}) > 1:
        written = ", ".join(sorted({repr(names[k]) for k in alike}))
        raise RowsError(f"no row has the id {id!r}, and several are written like it: {written}; name one of them.")
    return alike


def not_live(id: Any, groups: Mapping[GroupKey, Group], show: Show, query: Query) -> list[Explanation]:
    """What is known of an id that has no live row: one explanation of each group that remembers it, or one in all.

    A row that came at the newest instant, or stands in the queue of the newest `last`, and has not expired was surely
    dominated, or it would be live. Of others it is not known.
    """
    k = query.skyband
    beaten = BEATEN if k == 1 else f"{k} rows that live at least as long surely beat it"
    there = [(key, name, when) for key, group in groups.items() for name, when in zip(*group.remembered(), strict=True)]
    last: dict[GroupKey, tuple[Any, float]] = {}
    for k in _meant(id, [name for _, name, _ in there]):
        key, name, when = there[k]
        if key not in last or when > last[key][1]:
            last[key] = name, float(when)
    found = []
    for key, (name, when) in last.items():
        if query.latest:
            reason = f"its last row has expired{'' if query.gone_column is None else ' or was removed'}"
        elif query.expires is not None:
            reason = f"its last row has expired, or {beaten}"
        elif query.last is None and query.expiries(np.array([when]))[0] <= groups[key].clock:
            continue  # its last row may have expired, or a late one may have been forgotten
        else:
            reason = beaten
        found.append(_out(name, reason, key, show(when)))
    left = "has left long ago" if query.latest else f"has expired, or {beaten}"
    return found or [_out(id, f"it has no live row: none came, or it was rejected, or {left}")]


def _out(id: Any, reason: str, by: GroupKey = (), arrived: Any = None) -> Explanation:
    """Of what is not live: only that it is out, and why."""
    return Explanation(by, id, arrived, False, reason, 0.0, 0.0, UncertainRow({}), (), live=False)


def explained(
    live: LiveSet,
    slots: Sequence[int] | Ints,
    by: GroupKey,
    show: Show,
    query: Query,
    chain: Chain | None = None,
    *,
    work: int = WORK,
) -> list[Explanation]:
    """The explanations of live rows, in the order of their slots as given; nothing of the live set changes by it.

    `by`: the group's values; `show`: an instant as the user sees it, as `rows.clock.show_time`; `chain`: what imputes
    the rows' missing values, if anything does. `work`: how many instances times dominators of a row are looked at; one
    that has more is looked at coarsely, and is `approximate`. O(rows · (live · d + d · dominators · instances · log
    values)).
    """
    which, s = np.asarray(slots, np.int64), live.slots
    tally = None if chain is None else replace(chain.tally)
    if isinstance(live, SkybandLiveSet):
        out = _in_skyband(live, which, by, show, query)
    else:
        out = _in_skyline(live, which, by, show, query, work)
    if chain is None or tally is None:
        return out
    chain.tally = tally  # to explain a row revises nothing
    cells = imputed_cells(chain, s.known[which], query.plausible(s.raw[which]), [each.row for each in out])
    return [replace(each, imputed=some) for each, some in zip(out, cells, strict=True)]


def _in_skyline(live: LiveSet, which: Ints, by: GroupKey, show: Show, query: Query, work: int) -> list[Explanation]:
    """The same, without what was imputed."""
    s, state = live.slots, live.slots.columns.state
    alive = s.by_key(s.alive())
    opened, inside = alive[state[alive] >= OUT], state[which] == IN
    only = np.asarray(sole_dominators(s.live_arrays(), which[inside], opened))
    uncertain = _filled(live, np.concatenate((which, np.flatnonzero(only >= 0))))
    seen, sides = s.live_arrays()._replace(uncertain=uncertain), ends(uncertain, np.arange(s.used))
    found: Why = look_into(seen, *sides, which, inside, alive, opened, only, live.limits.threshold, work)
    about = _Explained(live, uncertain, found, opened, show, query)
    return [about.explanation(k, int(slot), by) for k, slot in enumerate(which.tolist())]


def _in_skyband(live: SkybandLiveSet, which: Ints, by: GroupKey, show: Show, query: Query) -> list[Explanation]:
    """The same where fewer than k others may beat a row. What would change it is not worked out."""
    s, c, k = live.slots, live.slots.columns, live.k
    opened, uncertain = s.by_key(live.opened), _filled(live, which)
    who, chances = likely_dominators(s.live_arrays(), uncertain, which, opened, DOMINATORS)
    low, high = live.chances(which)
    front = live.fronts(which)
    words, undecided = words_of(front, (low + high) / 2, live.alpha), set(live.undecided().tolist())
    out = []
    for n, slot in enumerate(which.tolist()):
        inside, hidden = bool(c.state[slot] == IN), bool(c.state[slot] == DOMINATED)
        half = float(high[n] - low[n]) / 2
        if slot in undecided:
            reason = UNDECIDED.format(live.alpha)
        elif inside:
            reason = f"more likely than alpha = {live.alpha:g} that fewer than {k} rows beat it"
        else:
            reason = f"{k} rows surely beat it" if hidden or front[n] == IMPOSSIBLE else f"{k} rows or more may beat it"
        certainty = "" if hidden else str(words[n])
        strongest = zip(who[n].tolist(), chances[n].tolist(), strict=True)
        out.append(
            Explanation(
                by=by,
                id=s.id[slot],
                arrived=show(c.arrived[slot]),
                inside=inside,
                reason=reason,
                probability=0.0 if hidden else float(low[n] + high[n]) / 2,
                probability_error=half if half > TOLERANCE and not hidden else 0.0,
                row=uncertain_row_of(uncertain, slot, query),
                beaten_by=tuple(Dominator(s.id[g], show(c.arrived[g]), p) for g, p in strongest if g >= 0),
                certainty="possible" if certainty == "likely" and not inside else certainty,
                alpha=live.alpha,
                outside=tuple(outside_of(s.raw[slot], query)),
                skyband=k,
            )
        )
    return out


def _filled(live: LiveSet, which: Ints) -> UncertainRows:
    """The live rows, with distributions in place of bounds in these slots."""
    s, uncertain = live.slots, live.slots.uncertain
    bounds_only = np.unique(which[(uncertain.start[which] == BOUNDS_ONLY).any(axis=1)])
    if not len(bounds_only):
        return uncertain
    assert live.fill is not None
    rows = s.again(bounds_only)
    filled, _ = fill_within(live.fill, rows.uncertain, rows.known, rows.uncertain.start == BOUNDS_ONLY)
    cells = {name: getattr(uncertain, name).copy() for name in ("lo", "hi", "start", "size")}
    for name in ("lo", "hi", "size"):
        cells[name][bounds_only] = getattr(filled, name)
    own = np.where(filled.start >= 0, filled.start + len(uncertain.value), filled.start)
    cells["start"][bounds_only] = np.where(filled.start == SHARED, s.shared, own)
    pools = {
        name: np.concatenate((getattr(uncertain, name), getattr(filled, name))) for name in ("value", "weight", "tail")
    }
    return UncertainRows(**cells, **pools)


class _Explained:
    """Makes explanations of what the kernel has found."""

    def __init__(
        self, live: LiveSet, uncertain: UncertainRows, found: Why, opened: Ints, show: Show, query: Query
    ) -> None:
        self.live, self.uncertain, self.found, self.opened = live, uncertain, found, opened
        self.show, self.query = show, query
        self.shadows, self.undecided = set(live.shadows().tolist()), set(live.undecided().tolist())
        boxes = live.slots.uncertain
        spread = boxes.hi[opened].max(axis=0, initial=-np.inf) - boxes.lo[opened].min(axis=0, initial=np.inf)
        self.spread: Floats = np.where(spread > 0, spread, 1.0)  # (d,) what is far in an attribute

    def explanation(self, k: int, slot: int, by: GroupKey) -> Explanation:
        """Of the k-th row asked for."""
        found, c, live = self.found, self.live.slots.columns, self.live
        inside = bool(c.state[slot] == IN)
        probability, within = self._probability(k, slot)
        strongest = zip(found.dominator[k].tolist(), found.chance[k].tolist(), strict=True)
        beaten_by = tuple(Dominator(*self._name(g), p) for g, p in strongest if g >= 0)
        front = str(words_of(found.front[k : k + 1], np.array([probability]), live.alpha)[0])
        g, j = found.decisive[k].tolist()
        decisive = None if g < 0 else Decisive(*self._name(g), self.query.names[j], float(found.moves[k]), g == slot)
        return Explanation(
            by=by,
            id=live.slots.id[slot],
            arrived=self.show(c.arrived[slot]),
            inside=inside,
            reason=self._reason(slot, beaten_by),
            probability=probability,
            probability_error=within,
            row=uncertain_row_of(self.uncertain, slot, self.query),
            beaten_by=beaten_by,
            certainty="possible" if front == "likely" and not inside else front,
            flips=(*self._own_flips(k, slot, inside), *self._other_flips(k, inside)),
            decisive=decisive,
            approximate=not found.exact[k],
            alpha=live.alpha,
            outside=tuple(outside_of(self.live.slots.raw[slot], self.query)),
        )

    def _name(self, g: int) -> tuple[Any, Any]:
        return self.live.slots.id[g], self.show(self.live.slots.columns.arrived[g])

    def _probability(self, k: int, slot: int) -> tuple[float, float]:
        """A probability and how far it may be off: kept of a member; worked out where that is exact; else bracketed."""
        c = self.live.slots.columns
        if c.state[slot] == DOMINATED:
            return 0.0, 0.0
        if c.state[slot] == IN:
            return float(c.probability[slot]), float(c.within[slot])
        if self.found.exact[k]:
            return float(self.found.probability[k]), 0.0
        low, high, _ = self.live.bracket(slot, self.opened, until_out=False)
        half = (high - low) / 2
        return (low + high) / 2, half if half > TOLERANCE else 0.0

    def _own_flips(self, k: int, slot: int, inside: bool) -> list[Flip]:
        """Of its own cells, the nearest first: in parts of how far apart the open rows lie."""
        found, uncertain, flips = self.found, self.uncertain, []
        [values] = self.query.plausible(self.live.slots.raw[slot : slot + 1])
        for j, (name, sign) in enumerate(zip(self.query.names, self.query.signs, strict=True)):
            if found.side[k, j] == NEVER:
                continue
            may, weight = _cell(uncertain, slot, j)
            missing = bool(np.isnan(values[j]) or len(may) > 1)
            value, side = float(found.value[k, j]), ">=" if found.side[k, j] == FROM else ">"
            if inside:
                side = _OPPOSITE[side]
            beyond = _such(may, side, value)
            if beyond.all():
                continue  # a coarser row was looked at, and it lies on the other side
            shown = float(value * sign + 0.0), side if sign > 0 else _TURNED[side]
            if not self._plausible(name, *shown):
                continue
            far = abs(float(may @ weight) - value) / self.spread[j]
            chance = float(weight[beyond].sum()) if missing else None
            flip = Flip(*self._name(slot), name, *shown, missing, not inside, float(found.then[k, j]), chance)
            flips.append((far, j, flip))
        return [flip for _, _, flip in sorted(flips, key=lambda each: each[:2])]

    def _plausible(self, name: str, value: float, side: str) -> bool:
        """Is any such value within the attribute's limits? One outside counts as missing."""
        low, high = self.query.limits.get(name, (-np.inf, np.inf))
        return {">=": value <= high, ">": value < high, "<=": value >= low, "<": value > low}[side]

    def _other_flips(self, k: int, inside: bool) -> Iterator[Flip]:
        """Of dominators' missing cells, the likeliest first."""
        found = self.found
        for at, (g, j) in enumerate(found.other[k].tolist()):
            if g >= 0:
                sign, side = self.query.signs[j], ">=" if inside else "<="
                shown = float(found.other_value[k, at] * sign + 0.0), side if sign > 0 else _TURNED[side]
                then, chance = float(found.other_then[k, at]), float(found.other_chance[k, at])
                yield Flip(*self._name(g), self.query.names[j], *shown, True, not inside, then, chance, own=False)

    def _reason(self, slot: int, beaten_by: tuple[Dominator, ...]) -> str:
        live, s, c = self.live, self.live.slots, self.live.slots.columns
        if slot in self.undecided:
            return UNDECIDED.format(live.alpha)
        if c.state[slot] == IN:
            return f"more likely than alpha = {live.alpha:g} that no row beats it"
        if c.state[slot] == DOMINATED:
            stronger = next(int(g) for g in self.opened if dominates(s.uncertain.lo, g, s.uncertain.hi, slot))
            return f"{_named(*self._name(stronger))} surely beats it"
        single = bool(beaten_by) and beaten_by[0].probability >= live.least
        guards = f"{_named(*beaten_by[0][:2])} guards it" if single else "several rows together guard it"
        return guards + (", for the rest of its life" if slot in self.shadows else "")


def outside_of(raw: Floats, query: Query) -> Iterator[Outside]:
    """What a row (d,), as it came, has outside its limits."""
    for name, value in zip(query.names, raw.tolist(), strict=True):
        low, high = query.limits.get(name, (-np.inf, np.inf))
        if value < low or value > high:
            yield Outside(name, value, low, high)


def _named(id: Any, arrived: Any) -> str:
    return f"{id!r} (arrived {arrived})"


def _such(values: Floats, side: str, value: float) -> Flags:
    """(n,) which of the values lie on that side of a value."""
    return {">=": values >= value, ">": values > value, "<": values < value, "<=": values <= value}[side]


def _cell(uncertain: UncertainRows, slot: int, j: int) -> tuple[Floats, Floats]:
    """The values of a cell, larger is better, and their weights."""
    start, size = uncertain.start[slot, j], uncertain.size[slot, j]
    if start < 0:
        return uncertain.lo[slot, j : j + 1], np.ones(1)
    return uncertain.value[start : start + size], uncertain.weight[start : start + size]


def uncertain_row_of(uncertain: UncertainRows, slot: int, query: Query) -> UncertainRow:
    """An uncertain row as the user sees it: not oriented."""
    values: dict[str, tuple[tuple[float, float], ...]] = {}
    for j, (name, sign) in enumerate(zip(query.names, query.signs, strict=True)):
        value, weight = _cell(uncertain, slot, j)
        pairs = tuple(zip((value * sign + 0.0).tolist(), weight.tolist(), strict=True))
        values[name] = pairs if sign > 0 else pairs[::-1]
    return UncertainRow(values)
