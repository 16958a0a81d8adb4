"""Does a run of several queries write what runs of each would, and the same again after it was cut off?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.output import compaction
from fogline.output.answers import OutputReader, read_answer
from fogline.output.folder import LocalFolder
from fogline.queries import Queries
from fogline.runs import spill
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded
from tests.flow.embedding import APPENDED, Case, learnt, readings, reported, run, write_stream
from tests.walks import QUERY, walks

PLAIN = Queries(
    {
        "sites": APPENDED,
        "all": fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=12, alpha=0.2),
        "newest": fl.Query(attributes={"b": "max"}, id="id", time="t", latest=True, by=["site"]),
    }
)
SENSORS = Queries({"whole": QUERY, "heat": fl.Query(attributes={"heat": "max"}, id="sensor", time="t", last=7)})
STREAMS = {
    "rows that are appended": (PLAIN, Case(APPENDED, lambda: readings(400, 1)), None),
    "sensors": (SENSORS, Case(QUERY, lambda: walks(steps=40, gaps=0.2, begin=200)), learnt),
}


def config_of(root: Path, asked: Any, output: str, repository: fl.Repository | None = None, **how: Any) -> RunConfig:
    return RunConfig(str(root / "in"), str(root / output), asked, repository, engine=EMBEDDED, **how)


def own(output: Path, kind: str, name: str | None = None) -> list[dict[str, Any]]:
    """What was reported of a query, without what is null or counts what was left out early."""
    rows = pq.read_table(output / kind).to_pylist()
    dropped = ("query", "seconds", "screened", "expired", "live", "clipped")
    chosen = [row for row in rows if name is None or row["query"] == name]
    return sorted(
        ({key: each for key, each in row.items() if each is not None and key not in dropped} for row in chosen),
        key=repr,
    )


@pytest.mark.parametrize("name", STREAMS)
def test_each_query_writes_what_it_would_write_alone(name, tmp_path):
    asked, case, repository = STREAMS[name]
    write_stream(case, tmp_path / "in")
    known = None if repository is None else repository()
    running = run(config_of(tmp_path, asked, "out", known))
    for query in asked:
        alone = run(config_of(tmp_path, asked[query], query, known, ahead="auto" if name == "sensors" else 300))
        for kind in ("changes", "rejects", "health"):
            if (tmp_path / query / kind).exists():
                found, expected = own(tmp_path / "out", kind, query), own(tmp_path / query, kind)
                if kind == "health":
                    found, expected = ([{**row, "undecided": 0} for row in each] for each in (found, expected))
                assert found == expected, (query, kind)
        one = running.status.each[query]
        assert (one.total, one.rejected, one.changes, one.answer) == (
            alone.status.total,
            alone.status.rejected,
            alone.status.changes,
            alone.status.answer,
        )
    assert running.status.total == case.table().num_rows
    assert running.status.changes == sum(each.changes for each in running.status.each.values())


@pytest.mark.parametrize("name", STREAMS)
def test_a_run_that_stops_after_every_batch_reports_what_an_undisturbed_one_does(name, tmp_path):
    asked, case, repository = STREAMS[name]
    write_stream(case, tmp_path / "in")
    known = None if repository is None else repository()
    run(config_of(tmp_path, asked, "whole", known), files_per_batch=1)
    for _ in range(case.files):
        assert not Embedded(config_of(tmp_path, asked, "out", known)).start(files_per_batch=1).awaitTermination(0)
    for kind in ("changes", "rejects", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "whole", kind)


def test_the_answer_is_that_of_each_query_also_when_files_were_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction.Compaction.__init__, "__kwdefaults__", {"block": 2, "keep": None})
    asked, case, _ = STREAMS["rows that are appended"]
    write_stream(case, tmp_path / "in")
    run(config_of(tmp_path, asked, "out"), files_per_batch=1)
    assert (tmp_path / "out" / "answers").exists()
    shown = OutputReader(LocalFolder(tmp_path / "out"), "out").shown()
    whole = read_answer(LocalFolder(tmp_path / "out"), "out")
    assert list(shown) == list(asked)
    for name, query in asked.items():
        run(config_of(tmp_path, query, name, ahead=300))
        alone = read_answer(LocalFolder(tmp_path / name), name)
        key = [(each, "ascending") for each in (*query.by, query.id, "t")]
        assert shown[name].rows.sort_by(key) == alone.sort_by(key)
        assert pc.sum(pc.equal(whole["query"], name)).as_py() == alone.num_rows


def test_changes_that_workers_wrote_into_files_are_counted_for_their_queries(tmp_path, monkeypatch):
    asked, case, _ = STREAMS["rows that are appended"]
    write_stream(case, tmp_path / "in")
    calm = run(config_of(tmp_path, asked, "calm"))
    monkeypatch.setattr("fogline.runs.embedded.COLLECTED", 2_000)
    spilled = run(config_of(tmp_path, asked, "out"))
    assert spill.PIECES not in [path.name for path in (tmp_path / "out").iterdir()]
    assert reported(tmp_path / "out") == reported(tmp_path / "calm")
    counts = {name: (each.changes, each.rejected) for name, each in spilled.status.each.items()}
    assert counts == {name: (each.changes, each.rejected) for name, each in calm.status.each.items()}


def test_other_queries_are_refused_by_name(tmp_path):
    asked, case, _ = STREAMS["rows that are appended"]
    write_stream(case, tmp_path / "in")
    run(config_of(tmp_path, asked, "out"))
    others = {
        "'newest' is missing": {name: asked[name] for name in ("sites", "all")},
        "'more' is new": {**asked, "more": APPENDED},
        "in 'sites' .*by was .* and is now not given": {**asked, "sites": asked["all"]},
        "'sites' is missing, .* the query without a name is new": APPENDED,
    }
    for words, other in others.items():
        with pytest.raises(FoglineError, match=words):
            Embedded(config_of(tmp_path, other if isinstance(other, fl.Query) else Queries(other), "out")).start()


def test_sinks_that_name_members_in_one_way_refuse_queries_that_do_in_two(tmp_path):
    asked, case, _ = STREAMS["rows that are appended"]
    write_stream(case, tmp_path / "in")

    class Kept:
        def __init__(self) -> None:
            self.rows: list[dict[str, Any]] = []
            self.key: tuple[str, ...] = ()

        def begin(self, run: Any) -> None:
            self.key = run.key

        def put(self, number: int, changes: Any, rejects: Any, health: Any) -> None:
            self.rows += pa.Table.from_batches(list(changes)).to_pylist()

    with pytest.raises(FoglineError, match="Run them apart"):
        Embedded(config_of(tmp_path, asked, "out", sinks=(Kept(),))).start()
    kept, some = Kept(), Queries({name: asked[name] for name in ("sites", "all")})
    run(config_of(tmp_path, some, "out", sinks=(kept,)))
    assert kept.key == ("query", "site", "id", "t")
    assert len(kept.rows) == pq.read_table(tmp_path / "out" / "changes").num_rows
    assert {row["query"] for row in kept.rows} == {"sites", "all"}
