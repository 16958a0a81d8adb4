"""Does every run draw the same examples?"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import Stream, streams


def drawn() -> list[object]:
    seen: list[object] = []

    @settings(max_examples=30)
    @given(streams(), st.floats())
    def look(stream: Stream, number: float) -> None:
        seen.append(repr((stream, number)))

    look()
    return seen


def test_two_runs_draw_the_same_examples(request):
    if request.config.getoption("--hypothesis-profile") not in (None, "fixed"):
        return  # exploring draws new ones: that is what it is for
    first, second = drawn(), drawn()
    assert len(first) >= 30
    assert first == second


def test_a_test_may_fix_its_number_of_examples_and_keeps_the_profile():
    assert settings(max_examples=7).derandomize == settings().derandomize
    assert settings(max_examples=7).deadline is None
