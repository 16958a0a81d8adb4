"""What does the command line state about memory and limits, and how does it end when one is reached?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fogline.cli import app
from fogline.cli.options import group_limits
from fogline.runs import estimate as estimating
from fogline.runs import estimate as memory
from tests.flow.embedding import write_stream
from tests.flow.test_limits import SITES

RUN = ("run", "in", "-q", "q.yaml", "-o", "out", "--engine", "embedded", "--files-per-batch", "1")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text("attributes: {a: max, b: max}\nid: id\ntime: t\nlifetime: 1000\nby: [site]\n")
    write_stream(SITES, tmp_path / "in")


def printed(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "300"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_a_run_that_is_full_ends_with_one_sentence_and_a_higher_limit_goes_on() -> None:
    text = printed(*RUN, "--max-live", "150", code=2)
    assert "the group site north has 180 live rows, 120% of max_live (150): the run stops" in text
    assert "Run it again with a higher --max-live" in text
    text = printed(*RUN, "--max-live", "400", "--when-full", "warn")
    assert "alarm: the group site north has 360 live rows, 90% of max_live (400)" in text
    assert "1 alarm; the group site north has 450 live rows" in text
    assert "alarm: the group site north has 450 live rows" in printed("answer", "out")


def test_what_memory_a_run_takes_is_stated_by_check(monkeypatch: pytest.MonkeyPatch) -> None:
    check = ("check", "in", "-q", "q.yaml")
    text = printed(*check)
    assert "MB (from the first 500 rows)." in text
    assert "more than the" not in text
    monkeypatch.setattr(memory, "machine_memory", lambda: 10**8)
    assert "That is more than the 100 MB of this machine: a shorter lifetime" in printed(*check)
    assert "Estimated memory" not in printed(*RUN)


def test_an_estimate_that_fails_is_a_remark_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(estimating, "TemporaryDirectory", fails)
    text = printed("check", "in", "-q", "q.yaml")
    assert text.count("The memory of a run could not be estimated (No space left on device);") == 1
    assert "500 rows" in text


def test_limits_that_are_none_are_refused() -> None:
    assert "when_full is 'drop'; it may be stop or warn" in printed(*RUN, "--when-full", "drop", code=2)
    assert "'much' is no size" in printed(*RUN, "--max-state", "much", code=2)
    words = [*RUN[:6], "--engine", "spark", "--files-per-batch", "1", "--max-rows-per-batch", "5"]
    assert "Spark takes one of the two" in printed(*words, code=2)
    assert not Path("out").exists()


def test_by_default_a_group_may_take_half_of_the_machine_it_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 10**10)
    nothing: dict[str, Any] = {"max_live": None, "max_state": None, "when_full": None}
    assert group_limits("embedded", None, **nothing).max_state == 5 * 10**9
    assert group_limits("spark", "local[2]", **nothing).max_state == 5 * 10**9
    assert group_limits("spark", "spark://there:7077", **nothing).max_state is None
    assert group_limits("spark", None, **nothing | {"max_state": "1GB"}).max_state == 10**9
