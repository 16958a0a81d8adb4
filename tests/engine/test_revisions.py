"""Is the answer right at every tick when gaps are known better later on?

Small random streams whose gaps are revised, at any tick, of rows in any state, against the oracle. The chain is a toy:
what is known of a row is its number and, for each cell, whether it has been revised.
"""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fogline.arrays import BOUNDS_ONLY, CHANGES, LEAVE, ONE, REASONS, Batch, Revisions, UncertainRows, objects
from fogline.engine import live
from fogline.engine.audit import audit, measure
from fogline.engine.group import Group, Incoming, WindowGroup
from fogline.engine.store import join_groups, save_group, split_groups
from fogline.errors import FoglineError
from fogline.saved import pack, unpack
from tests import oracle
from tests.changing import in_skyband
from tests.contracts import CLOSE, agree, members, query_of
from tests.strategies import Gap, Hindsight, Stream, hindsights

ALPHAS = [Fraction(a) for a in ("0", "3/10", "1/2", "9/10")]


def trying(examples):
    return settings(
        deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )


class Toy:
    """A chain that knows every row of a stream beforehand."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.rows = stream, stream.rows
        self.number = {(row["id"], row["t"]): k for k, row in enumerate(self.rows)}
        self.names, self.signs = list(stream.attributes), [1 if s == "max" else -1 for s in stream.attributes.values()]

    def fill(self, uncertain: UncertainRows, known: np.ndarray, gaps: np.ndarray) -> UncertainRows:
        """Lists for gaps: within their boxes at first, with boxes as narrow as they are once they are revised."""
        lo, hi, start, size = uncertain.lo.copy(), uncertain.hi.copy(), uncertain.start.copy(), uncertain.size.copy()
        pools = [list(each) for each in uncertain[4:]]
        for i, j in zip(*np.nonzero(gaps), strict=True):
            gap = self.rows[int(known[i, 0])][self.names[j]]
            revised = known[i, 1 + j] == 1
            pairs = oracle.cell(list(gap.then if revised else gap.first), self.stream.attributes[self.names[j]])
            start[i, j], size[i, j] = len(pools[0]), len(pairs)
            pools[0] += [float(value) for value, _ in pairs]
            pools[1] += [float(weight) for _, weight in pairs]
            pools[2] += [float(sum(weight for _, weight in pairs[k:])) for k in range(len(pairs))]
            if revised:
                lo[i, j], hi[i, j] = float(pairs[0][0]), float(pairs[-1][0])
                start[i, j] = ONE if len(pairs) == 1 else start[i, j]
        return UncertainRows(lo, hi, start, size, *(np.array(each, float) for each in pools))

    def note(self, known: np.ndarray, events: Revisions) -> np.ndarray:
        out = known.copy()
        out[:, 1:][events.cells] = 1
        return out

    def batch(self, rows, eager: bool) -> Batch | None:
        if not rows:
            return None
        n, d = len(rows), len(self.names)
        lo, hi, start = np.empty((n, d)), np.empty((n, d)), np.full((n, d), ONE)
        for i, row in enumerate(rows):
            for j, (name, sign) in enumerate(zip(self.names, self.signs, strict=True)):
                cell = row[name]
                box = sorted((sign * cell.low, sign * cell.high)) if isinstance(cell, Gap) else [sign * cell] * 2
                lo[i, j], hi[i, j] = box
                start[i, j] = BOUNDS_ONLY if isinstance(cell, Gap) else ONE
        none = np.empty(0)
        uncertain = UncertainRows(lo, hi, start, np.ones((n, d), np.int64), none, none, none)
        numbers = np.array([[self.number[row["id"], row["t"]]] for row in rows], float)
        known = np.hstack((numbers, np.zeros((n, d))))
        if eager:
            uncertain = self.fill(uncertain, known, start == BOUNDS_ONLY)
        raw = np.where(start == ONE, lo, np.nan)
        arrived = np.array([row["t"] for row in rows], float)
        life = self.stream.window
        expires = [row["e"] if "expires" in life else row["t"] + life.get("lifetime", np.inf) for row in rows]
        return Batch(objects([row["id"] for row in rows]), arrived, np.array(expires, float), raw, known, uncertain)

    def revisions(self, events) -> Revisions | None:
        if not events:
            return None
        cells = np.array([[name in some for name in self.names] for _, _, _, some in events])
        times = np.array([[target, time] for _, target, time, _ in events], float)
        ids = objects([name for name, *_ in events])
        return Revisions(ids, times[:, 0], times[:, 1], cells, np.full(cells.shape, np.nan))

    def group(self) -> Group:
        stream = self.stream
        d = len(self.names)
        rows = live.LiveSet(d, float(stream.alpha), known=1 + d, fill=self.fill, note=self.note)
        group = WindowGroup(rows, stream.window.get("last"))
        in_skyband(group, stream.skyband)
        return group


def truth_of(hindsight: Hindsight):
    """{call: ticks}, by the oracle."""
    stream, toy = hindsight.stream, Toy(hindsight.stream)

    def plain(row, which):
        cells = {a: list(getattr(row[a], which)) for a in stream.attributes if isinstance(row[a], Gap)}
        return {**row, **cells}

    calls = [(now, [plain(row, "first") for row in rows]) for now, rows in stream.calls]
    events = [
        oracle.Revise(name, t, time, {a: plain(toy.rows[toy.number[name, t]], "then")[a] for a in some}, call)
        for call, every in enumerate(hindsight.revisions)
        for name, t, time, some in every
    ]
    ticks = defaultdict(list)
    for tick in oracle.replay(calls, stream.attributes, (), events, **stream.window, skyband=stream.skyband):
        ticks[tick.call].append(tick)
    return ticks


def resumed(toy: Toy, group: Group) -> Group:
    """The group again, from its stored state."""
    kind = pa.array([row["id"] for row in toy.rows]).type
    arrays = join_groups([group], len(toy.names), kind)
    header, arrays = unpack(pack({"groups": [save_group(group)]}, arrays))
    [again], _ = split_groups(header["groups"], arrays, query_of(toy.stream), toy.group)
    return again


def net(answer, deltas):
    """Deltas added to an answer; each must make sense where it stands."""
    answer = dict(answer)
    for delta in deltas:
        seen = set()
        for name, arrived, change, p in zip(delta.id, delta.arrived, delta.change, delta.probability, strict=True):
            key, what = (name, arrived), CHANGES[change]
            assert key not in seen
            seen.add(key)
            assert (key in answer) == (what != "enter")
            if what == "leave":
                assert np.isnan(p)
                del answer[key]
            else:
                assert what == "enter" or abs(answer[key] - p) > CLOSE
                answer[key] = p
    return answer


def _same_bits(x, y):
    if x is None or y is None:
        return x is y
    return x.tolist() == y.tolist() if x.dtype == object else x.tobytes() == y.tobytes()


def reasons_hold(deltas, window, band):
    """Why rows left, as the oracle sees it; of those that surely beat a row any may be named, for boxes decide that."""
    for delta in deltas:
        none = np.full(len(delta.id), None)
        rivals = delta.dominator if delta.dominator is not None else none
        times = delta.dominator_time if delta.dominator is not None else none
        for k in np.flatnonzero(delta.change == LEAVE):
            here = [c for c in window if (c.id, c.arrived) == (delta.id[k], delta.arrived[k])]
            sure = [(g.id, g.arrived) for c in here for g in window if g is not c and oracle.chance(g, c) == 1]
            beaten = len(sure) >= band
            assert REASONS[delta.reason[k]] == ("expired" if not here else "beaten" if beaten else "less likely")
            assert (rivals[k], times[k]) in sure if beaten else rivals[k] is None


def answer_of(group: Group):
    s = group.live.slots
    return {(s.id[c], s.columns.arrived[c]): s.columns.probability[c] for c in group.live.members()}


def run(hindsight: Hindsight, *, eager=False, ticks=True, resume=(), reveal=()):
    """Drive a group through all calls and hold it to the oracle; returns all deltas, and the group."""
    stream, toy, true = hindsight.stream, Toy(hindsight.stream), truth_of(hindsight)
    group, clock, everything = toy.group(), -np.inf, []
    answer: dict[Any, float] = {}
    truth: dict[Any, Fraction] = {}
    for call, (now, rows) in enumerate(stream.calls):
        events = toy.revisions(hindsight.revisions[call])
        deltas = group.advance(clock, float(now), Incoming(toy.batch(rows, eager), events), ticks)
        times = [tick.time for tick in true[call]]
        assert not ticks or {delta.time for delta in deltas} <= set(times)
        for tick in true[call]:
            truth = members(tick.probabilities, stream.alpha)
            if ticks:
                reasons_hold(
                    [delta for delta in deltas if delta.time == tick.time], tick.windows.get((), ()), stream.skyband
                )
                agree(net(answer, [delta for delta in deltas if delta.time <= tick.time]), truth, 2.5 * CLOSE)
        answer = net(answer, deltas)
        agree(answer_of(group), truth)
        audit(group.live)
        if call in reveal:
            group.live.reveal()
            audit(group.live)
            agree(answer_of(group), truth)
        if call in resume:
            group = resumed(toy, group)
            audit(group.live)
        clock = float(now)
        everything.append(deltas)
    counts = group.live.counts
    assert sum(counts.pruned().values()) <= len(stream.rows)
    assert counts.forgotten <= len(stream.rows)
    return everything, group


some_calls = st.sets(st.integers(0, 8))


@trying(300)
@given(hindsights(alphas=ALPHAS), st.booleans())
def test_every_tick_has_the_true_answer_when_gaps_are_revised(hindsight, eager):
    run(hindsight, eager=eager)


@trying(120)
@given(hindsights(window="last", alphas=ALPHAS), st.booleans(), some_calls)
def test_with_the_newest_rows_only_revisions_happen_between_arrivals_too(hindsight, eager, resume):
    run(hindsight, eager=eager, resume=resume)


@trying(120)
@given(hindsights(alphas=ALPHAS), st.booleans(), some_calls)
def test_taken_at_once_the_answer_at_the_end_of_each_call_is_true(hindsight, eager, resume):
    run(hindsight, eager=eager, ticks=False, resume=resume)


@trying(100)
@given(hindsights(alphas=ALPHAS), some_calls, some_calls)
def test_a_group_resumed_from_its_state_goes_on_bit_for_bit(hindsight, resume, reveal):
    stopped, _ = run(hindsight, resume=resume, reveal=reveal)
    unbroken, _ = run(hindsight)
    for some, others in zip(stopped, unbroken, strict=True):
        for a, b in zip(some, others, strict=True):
            assert a.id.tolist() == b.id.tolist()
            for x, y in zip(a, b, strict=True):
                assert isinstance(x, float) or _same_bits(x, y)


@trying(120)
@given(hindsights(alphas=[Fraction(0)]), st.booleans())
def test_at_alpha_zero_just_those_are_out_that_have_no_chance_now(hindsight, eager):
    run(hindsight, eager=eager)


@trying(100)
@given(hindsights(alphas=ALPHAS), st.sampled_from([("COMPACT_FROM", 0), ("SUM_LIMIT", 1), ("MANY", 0)]), some_calls)
def test_rare_paths_have_the_same_answer_when_gaps_are_revised(hindsight, rare, resume):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, *rare)
        run(hindsight, resume=resume)


@trying(60)
@given(hindsights(alphas=ALPHAS), st.data())
def test_answers_do_not_depend_on_how_rows_and_revisions_are_cut_into_calls(hindsight, data):
    """Whatever is late keeps meeting the clock it met: only calls without late rows or revisions are joined.

    A reading is later than the row that it revises: otherwise a cut might lie between the two, within one tick.
    """
    events_ = [[event for event in events if event[1] < event[2]] for events in hindsight.revisions]
    hindsight, stream = replace(hindsight, revisions=events_), hindsight.stream
    calls: list[Any] = [(stream.calls[0][0], [])]
    revisions: list[Any] = [[]]
    clock = -np.inf
    for (now, rows), events in zip(stream.calls, hindsight.revisions, strict=True):
        late = any(row["t"] < clock for row in rows) or any(event[2] < clock for event in events)
        if late or data.draw(st.booleans()):
            calls.append((now, list(rows)))
            revisions.append(list(events))
        else:
            calls[-1] = (now, [*calls[-1][1], *rows])
            revisions[-1] += events
        clock = now
    joined = Hindsight(replace(stream, calls=calls), revisions)
    run(joined)
    agree(answer_of(run(joined)[1]), answer_of(run(hindsight)[1]), 3 * CLOSE)


# --- One by one -------------------------------------------------------------------------------------------------------


def story(alpha, rows, *revisions, until=9, **window):
    """A stream of a call per instant: rows (id, arrived, expires, cells…), revisions (time, id, arrived, names)."""
    d = len(rows[0]) - 3
    stream = Stream({f"a{j}": "max" for j in range(d)}, Fraction(alpha), window or {"expires": "e"}, [])
    made = [{"id": r[0], "t": r[1], "e": r[2], **{f"a{j}": r[3 + j] for j in range(d)}} for r in rows]
    calls = [(t, [row for row in made if row["t"] == t]) for t in range(until)]
    found = [[(name, t, time, names) for time, name, t, names in revisions if time == now] for now in range(until)]
    return Hindsight(replace(stream, calls=calls), found)


def changes(everything):
    """[(time, id, change)], of all deltas."""
    return [
        (delta.time, name, CHANGES[change])
        for deltas in everything
        for delta in deltas
        for name, change in zip(delta.id, delta.change, strict=True)
    ]


WIDE = Gap([(0, 1), (4, 1)], [(4, 1)], 0, 5)


def test_a_revised_member_is_updated_and_never_leaves_to_enter_again():
    rows = [("x", 0, 9, WIDE), ("y", 0, 9, 3)]
    found, group = run(story("1/4", rows, (2, "x", 0, ("a0",))))
    assert changes(found)[:4] == [(0, "x", "enter"), (0, "y", "enter"), (2, "x", "update"), (2, "y", "leave")]
    assert group.live.counts.revised == 1


def test_a_row_that_is_surely_beaten_once_it_is_revised_leaves_and_is_forgotten():
    low = Gap([(0, 1), (4, 1)], [(1, 1)], 0, 5)
    found, group = run(story("1/4", [("x", 0, 8, low), ("y", 0, 9, 3)], (2, "x", 0, ("a0",)), until=5))
    assert (2, "x", "leave") in changes(found)
    assert (2, "y", "update") in changes(found)
    assert group.live.alive == 1
    assert measure(group)["forgotten"] == measure(group)["pruned_spatial"] == 1


def test_a_shadow_enters_when_its_guard_turns_out_to_be_worse():
    guard = Gap([(4, 9), (0, 1)], [(1, 1)], 0, 5)
    found, _ = run(story("1/2", [("x", 0, 9, guard), ("y", 0, 9, 3)], (4, "x", 0, ("a0",))))
    assert changes(found)[:3] == [(0, "x", "enter"), (4, "x", "leave"), (4, "y", "enter")]


@pytest.mark.parametrize("alpha", ["0", "1/2"])
def test_what_a_row_guarded_before_it_was_sealed_is_judged_when_it_is_revised(alpha):
    guard, guarded = Gap([(50, 1)], [(0, 1)], 0, 60), Gap([(1, 6), (100, 4)], [(1, 6), (100, 4)], 1, 100)
    rows = [("g", 0, 9, guard, 6), ("o", 0, 8, guarded, 5), ("x", 1, 4, 60, 7)]
    run(story(alpha, rows, (2, "g", 0, ("a0",))))


def test_two_rows_that_beat_each_other_are_revised_at_one_tick():
    coin = Gap([(0, 1), (4, 1)], [(2, 1), (3, 1)], 0, 4)
    other = Gap([(1, 1), (3, 1)], [(2, 1), (3, 3)], 0, 4)
    run(story("1/10", [("x", 0, 9, coin, 1), ("y", 0, 9, other, 1)], (3, "x", 0, ("a0",)), (3, "y", 0, ("a0",))))


@pytest.mark.parametrize("names", [[("a0",), ("a1",)], [("a1",), ("a0",)]])
def test_two_revisions_of_one_row_at_one_tick_both_count(names):
    coin = Gap([(0, 1), (4, 1)], [(3, 1)], 0, 4)
    rows = [("x", 0, 9, coin, coin), ("y", 0, 9, 2, 2)]
    _, group = run(story("1/10", rows, (3, "x", 0, names[0]), (3, "x", 0, names[1]), until=8))
    assert group.live.counts.revised == 1
    assert answer_of(group) == {("x", 0): 1.0}


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("sealer", [0, 1])  # with the others, or when they are open and filled
def test_a_sealed_row_is_filled_with_what_is_known_when_its_seal_ends(sealer, eager):
    sealed = Gap([(0, 1), (2, 1)], [(1, 1)], 0, 2)
    rows = [("x", 0, 9, sealed), ("g", sealer, 5, 3), ("y", 0, 9, Gap([(0, 1)], [(0, 1)], 0, 2))]
    found, group = run(story("1/4", rows, (2, "x", 0, ("a0",))), eager=eager)
    assert [change for change in changes(found) if change[0] == 5] == [(5, "x", "enter"), (5, "g", "leave")][
        :: 2 * sealer - 1
    ]
    assert answer_of(group) == {("x", 0): 1.0}


@pytest.mark.parametrize("target", [("z", 0), ("x", 1), ("gone", 0), ("worse", 0)])
def test_revisions_of_rows_that_are_not_there_are_ignored(target):
    rows = [("x", 0, 9, WIDE), ("gone", 0, 2, WIDE), ("worse", 0, 3, -1)]
    plain = story("1/4", rows)
    events: list[Any] = [[] for _ in plain.revisions]
    toy = Toy(plain.stream)
    events[3] = [(*target, 3, ("a0",))]
    group, other = toy.group(), toy.group()
    for call, (now, came) in enumerate(plain.stream.calls):
        clock = now - 1.0 if call else -np.inf
        a = group.advance(clock, float(now), Incoming(toy.batch(came, False), toy.revisions(events[call])))
        b = other.advance(clock, float(now), Incoming(toy.batch(came, False)))
        assert changes([a]) == changes([b])
        audit(group.live)
    assert group.live.counts.revised == 0


def test_an_imputer_that_widens_a_box_is_refused():
    """n in 0…10 is revised to 5…6, q = 4 is forgotten; to make {2, 8} of n then would lose q."""
    toy = Toy(story("0", [("n", 0, 9, Gap([(0, 1), (10, 1)], [(5, 1), (6, 1)], 0, 10)), ("q", 0, 9, 4)]).stream)
    group = toy.group()
    group.advance(-np.inf, 0.0, Incoming(toy.batch(toy.rows, False)))
    group.advance(0.0, 1.0, Incoming(revisions=toy.revisions([("n", 0, 1, ("a0",))])))
    assert group.live.alive == 1
    toy.rows[0] = {**toy.rows[0], "a0": Gap([], [(2, 1), (8, 1)], 0, 10)}
    with pytest.raises(FoglineError, match="beyond the bounds"):
        group.advance(1.0, 2.0, Incoming(revisions=toy.revisions([("n", 0, 2, ("a0",))])))
