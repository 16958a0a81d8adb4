"""Is what a sensor is remembered to have read what it stated last about that instant?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.kernels.sensors import TAKEN, Candidates
from fogline.repository.sensors.state import SensorRows, SensorState

NAN = float("nan")
Reading = tuple[str, float, int, tuple[float, float]]  # sensor, time, version, values

readings = st.lists(
    st.tuples(
        st.sampled_from("xy"),
        st.integers(0, 3).map(float),
        st.integers(0, 2),
        st.tuples(*[st.sampled_from([1.0, 2.0, 3.0, NAN])] * 2),
    ),
    max_size=12,
)


def take(kept: SensorState, rows: Sequence[Reading], versions: bool = True) -> Any:
    """One call: of one instant the greatest version comes first."""
    rows = sorted(rows, key=lambda row: (row[1], -row[2]))
    names, time = [(row[0],) for row in rows], np.array([row[1] for row in rows])
    values = np.array([row[3] for row in rows]).reshape(-1, 2)
    version = np.array([row[2] if versions else 0 for row in rows], np.int64)
    n, every, none = len(rows), np.ones(len(rows), np.bool_), np.empty((0, 2), np.bool_)
    candidates = Candidates(np.full(n, -1), none, np.zeros(2, np.bool_), every, version)
    asked = SensorRows(names, time, values, every, order=np.arange(n), candidates=candidates)
    assert (kept.take(asked).fate == TAKEN).all()
    kept.check()


def held(kept: SensorState) -> dict[Any, list[tuple[float, float]]]:
    times, values = kept.arrays()
    return {
        (name[0], j): [(t, v) for t, v in zip(times[k, j], values[k, j], strict=True) if t > -np.inf]
        for name, k in kept.number.items()
        for j in range(2)
    }


def stated(rows: Sequence[Reading], versions: bool) -> dict[Any, list[tuple[float, float]]]:
    """The same, as one would write it down: a page per sensor and attribute."""
    pages: dict[Any, dict[float, float]] = {}
    newest: dict[Any, tuple[float, int]] = {}  # the stamp of each attribute's newest value
    for sensor, time, version, values in rows:
        for j in range(2):
            pages.setdefault((sensor, j), {})
        stamp, never = (time, version if versions else 0), (-np.inf, 0)
        last = max(newest.get((sensor, j), never)[0] for j in range(2))  # when the sensor was heard last
        for j, value in enumerate(values):
            page, known = pages[sensor, j], newest.get((sensor, j), never)
            corrects = known[0] == time == last and stamp >= known
            if not np.isnan(value) and (corrects or time not in page):
                page[time] = value
                newest[sensor, j] = max(stamp, known)
    return {key: sorted(page.items(), reverse=True) for key, page in pages.items()}


@given(readings, st.booleans())
@settings(max_examples=150)
def test_a_correction_takes_the_place_of_what_it_corrects_and_an_older_version_does_not(rows, versions):
    kept = SensorState(2)
    for row in rows:
        take(kept, [row], versions)
        kept = SensorState(2).load(kept.to_bytes())
    assert held(kept) == stated(rows, versions)


@given(readings, st.sets(st.integers(0, 12)))
@settings(max_examples=150)
def test_however_the_readings_are_cut_into_calls_the_same_is_remembered(rows, cuts):
    rows = list({row[:3]: row for row in rows}.values())
    rows.sort(key=lambda row: row[1])  # versions of one instant come in any order
    one, many = SensorState(2), SensorState(2)
    ends = [*sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    for begin, end in zip([0, *ends], ends, strict=False):
        if begin < end:
            take(one, rows[begin:end])
    for row in rows:
        take(many, [row])
    assert held(one) == held(many)
