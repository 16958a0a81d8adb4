"""Is a value outside its limits one thing in every view: the missing value that the answer counts it as?

Each view is compared with that of the same stream with nothing in these cells; what was measured is named by
explanations alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.output.views import near_at
from fogline.plot.possible import possible_rows
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded

LIMITS = {"gas": (0, 100), "oxygen": (5, 60)}
QUERY = fl.Query({"gas": "max", "oxygen": "min"}, id="room", time="t", lifetime=50, alpha=0.1, limits=LIMITS)
BEYOND, MISSING = 294.0, None
SENTENCE = "its gas of 294 was outside 0…100 and is treated as missing, likely "


@pytest.fixture(scope="module")
def repository():
    history = [{"gas": float(k % 10 + (k * 7) % 3), "oxygen": 21.0 - k % 10, "room": "h", "t": -k} for k in range(200)]
    return fl.Repository.fit(history, QUERY, rules=["oxygen(0.5) -> gas(3)"], retention=0)


def rows(cell: float | None) -> list[dict[str, Any]]:
    """A row whose gas is at stake in the answer, and others near it."""
    values = {"a": (cell, 14.0), "b": (8.0, 14.5), "c": (5.0, 13.0), "d": (cell, 20.0)}
    return [{"room": k, "t": t, "gas": gas, "oxygen": o} for t, (k, (gas, o)) in enumerate(values.items())]


def monitors(repository, **how: Any) -> tuple[fl.Monitor, fl.Monitor, pa.Table, pa.Table]:
    beyond, missing = fl.Monitor(QUERY, repository, **how), fl.Monitor(QUERY, repository, **how)
    return beyond, missing, beyond.advance(5, rows(BEYOND)), missing.advance(5, rows(MISSING))


def test_changes_answers_and_plots_show_it_as_missing(repository):
    beyond, missing, changes, expected = monitors(repository)
    assert changes.equals(expected)
    assert beyond.answer(certainty="possible").equals(missing.answer(certainty="possible"))
    assert "a" in beyond.answer()["room"].to_pylist()
    assert possible_rows(beyond, None) == possible_rows(missing, None)
    assert "294" not in fl.show(beyond)._repr_html_()
    assert beyond.stats()["outside_limits"] == 2


def test_an_explanation_names_what_was_measured_and_what_it_counts_as(repository):
    beyond, missing, *_ = monitors(repository)
    for monitor in (beyond, fl.Monitor.restore(QUERY, beyond.snapshot(), repository)):
        [found], [plain] = monitor.explain("a"), missing.explain("a")
        assert SENTENCE in found.sentence
        assert found.sentence.replace(SENTENCE, "its missing gas is likely ") == plain.sentence
        assert found.imputed == plain.imputed
        assert found.imputed
        assert found.flips == plain.flips
        named, without = found.to_dict(), plain.to_dict()
        assert named.pop("outside") == [{"attribute": "gas", "value": 294.0, "low": 0.0, "high": 100.0}]
        assert without.pop("outside") == []
        assert named | {"sentence": ""} == without | {"sentence": ""}
        assert "gas of 294 was outside 0…100 and is treated as missing: " in str(found)
    assert not missing.explain("a")[0].outside


def test_an_imputer_that_gives_one_value_at_once_is_named_beside_what_was_measured():
    monitor = fl.Monitor(QUERY, imputer=lambda rows: {"gas": [7.0] * rows.num_rows})
    monitor.advance(5, rows(BEYOND))
    [found] = monitor.explain("a")
    assert f"{SENTENCE}7" in found.sentence
    assert [(each.attribute, each.now) for each in found.gaps] == [("gas", ((7.0, 1.0),))]


def test_a_value_that_is_written_like_its_limit_is_written_in_full():
    outside = fl.types.Outside("gas", 100.00004, 0.0, 100.0)
    assert str(outside) == "100.00004 was outside 0…100 and is treated as missing"


def run(folder: Path, repository: fl.Repository, cell: float | None) -> LocalFolder:
    (folder / "in").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows(cell)), folder / "in" / "1.parquet")
    config = RunConfig(
        str(folder / "in"), str(folder / "out"), QUERY, repository, every="batch", engine=EMBEDDED, explain=True
    )
    Embedded(config).start().awaitTermination()
    return LocalFolder(str(folder / "out"))


def test_an_output_holds_it_as_missing_and_its_explanations_name_it(repository, tmp_path):
    beyond, missing = (run(tmp_path / name, repository, cell) for name, cell in (("x", BEYOND), ("y", MISSING)))
    assert read_answer(beyond, "x").equals(read_answer(missing, "y"))
    for kind in ("near", "changes"):
        found, expected = (pq.read_table(tmp_path / name / "out" / kind) for name in "xy")
        assert found.drop_columns("why").equals(expected.drop_columns("why"))
        why = {row["room"]: row["why"] for row in found.to_pylist()}
        assert SENTENCE in json.loads(why["a"])["sentence"]
    assert near_at(beyond)["gas"].null_count == near_at(missing)["gas"].null_count == 1


def test_a_table_shows_it_as_missing_too(repository):
    beyond, missing = (fl.skyline(rows(cell), QUERY, repository, certainty="possible") for cell in (BEYOND, MISSING))
    assert beyond.equals(missing)
