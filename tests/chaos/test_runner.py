"""Does a campaign go on where it stopped, and does its page state what was wrong?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType

import pytest

from tests.chaos import __main__ as runner
from tests.chaos.case import Case, NotHere, Outcome
from tests.chaos.ledger import Ledger


@pytest.fixture
def tried(monkeypatch):
    """A part with three cases per seed, and the keys of those that were tried."""
    keys: list[str] = []

    def good() -> Outcome:
        return Outcome("refused", 3, 5, "'x' is damaged")

    def wrong() -> Outcome:
        raise AssertionError("2 changes | are missing")

    def not_here() -> Outcome:
        raise NotHere("no tmpfs")

    def noted(key: str, run: Callable[[], Outcome]) -> Outcome:
        keys.append(key)
        return run()

    def cases(seed: int) -> Iterator[Case]:
        ends: dict[str, Callable[[], Outcome]] = {"good": good, "bad": wrong, "no": not_here}
        for name, run in ends.items():
            yield Case("kills", name, "append", seed, partial(noted, f"{name}{seed}", run))

    part = ModuleType("tests.chaos.kills")
    part.__spec__ = sys.modules["pytest"].__spec__
    monkeypatch.setattr(part, "cases", cases, raising=False)
    monkeypatch.setitem(sys.modules, "tests.chaos.kills", part)
    return keys


def test_a_campaign_goes_on_and_what_was_wrong_is_tried_again(tried, tmp_path, capsys):
    words = ["--part", "kills", "--ledger", str(tmp_path / "l.jsonl"), "--report", str(tmp_path / "page.md")]
    assert runner.main([*words, "--seeds", "0:1"]) == 1
    assert tried == ["good0", "bad0", "no0"]
    with (tmp_path / "l.jsonl").open("a") as file:
        file.write('{"part": "kills", "scen')  # its process was killed
    assert runner.main([*words, "--seeds", "0:2"]) == 1
    assert tried == ["good0", "bad0", "no0", "bad0", "no0", "good1", "bad1", "no1"]
    shown = capsys.readouterr().out
    assert "6 cases: 6 faults, 10 schedules, 2 wrong" in shown
    assert "python -m tests.chaos --only 'kills/bad/append/0'" in shown
    page = (tmp_path / "page.md").read_text()
    assert "| **all** | 6 | 6 | 10 | 0 | 2 | 2 | 2 |" in page
    assert r"AssertionError: 2 changes \| are missing" in page
    assert "'x' is damaged" in page


def test_one_case_is_repeated_by_its_key(tried, tmp_path):
    runner.main(["--only", "kills/good/append/7", "--ledger", str(tmp_path / "l.jsonl")])
    assert tried == ["good7"]
    assert Ledger(tmp_path / "l.jsonl").has("kills/good/append/7")


def test_an_end_that_is_neither_the_same_nor_refused_is_no_outcome():
    with pytest.raises(ValueError, match="ends as"):
        Outcome("fine")
