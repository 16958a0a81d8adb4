"""Is what earlier versions have written still read rightly, or refused with the way out?"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.files.settled import Layout
from fogline.output import about, compaction
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.pipeline.exchange import unpack_groups
from fogline.repository import store
from fogline.runs.config import RunConfig
from fogline.runs.embedded import Embedded
from fogline.saved import MAGIC as PACKED
from fogline.saved import opened, sealed
from fogline.state import sqlite
from fogline.state.format import MAGIC as STATE
from tests.flow.embedding import APPENDED, NEWEST, config_of
from tests.formats import examples
from tests.formats.examples import EXAMPLES, KEPT, RUNS, Example, kept_repository
from tests.formats.write import expected_of


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_a_kept_example_gives_exactly_what_is_written_beside_it(example: Example, tmp_path):
    path = KEPT / example.name
    expected = json.loads(expected_of(path).read_text(encoding="utf-8"))
    assert as_called_now(without_words(example.read(path, tmp_path))) == as_called_now(without_words(expected))


def without_words(value: Any) -> Any:
    """The same, but for what explanations state to people, which no program reads again."""
    if isinstance(value, list):
        return [without_words(each) for each in value]
    if isinstance(value, str) and value.startswith('{"id": '):
        return {name: each for name, each in json.loads(value).items() if name not in ("sentence", "outside")}
    return value


NOW = {"rival": "beaten_by", "rival_time": "beaten_by_time", "within": "probability_error", "front": "certainty"}


BY_WHAT = {"rival", "rival_time", "beaten_by", "beaten_by_time"}


def as_called_now(value: Any) -> Any:
    """Rows of examples that were written when columns had other names: the id and the time are called by the query.

    What beats the row that took the place of another was not written beside them.
    """
    if isinstance(value, list):
        k = value.index("replaced") if "replaced" in value else len(value)
        return [as_called_now(each) if not k < i <= k + 2 else None for i, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if value.get("reason") == "replaced":
        value = {name: None if name in BY_WHAT else each for name, each in value.items()}
    if "arrived" not in value:
        return value
    names = NOW | {"arrived": "t", "id": "sensor" if "heat" in value else "id"}
    return {names.get(name, name): each for name, each in value.items() if name != "exact"}


def test_every_example_is_of_the_version_that_is_written_now_or_has_one_beside_it_that_is():
    versions = {
        "repository": store.FORMAT,
        "snapshot": PACKED[-1],
        "groups": PACKED[-1],
        "group-state": STATE[-1],
        "sensor-state": STATE[-1],
        "journal": 1,
        "layout": 1,
        "run": max(about.FORMAT, sqlite.FORMAT, compaction.FORMAT, STATE[-1]),
    }
    newest: dict[str, int] = {}
    for each in EXAMPLES:
        for name, version in re.findall(r"^(.*?)(?:-(?:append|latest|hindsight))?-(\d+)(?:\..*)?$", each.name):
            newest[name] = max(newest.get(name, 0), int(version))
    assert newest == versions, "a format has changed: write an example of it, beside the old one (see README.md)"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("mode", RUNS)
def test_a_run_with_another_checkpoint_or_other_columns_is_refused_by_name(mode, version, tmp_path):
    words = (
        r"of the output has format 1; .* reads 3\. .* an older Fogline: go on with that one, or choose another output"
    )
    with pytest.raises(FoglineError, match=words):
        examples.resumed(KEPT / f"run-{mode}-{version}", tmp_path, RUNS[mode])
    with pytest.raises(FoglineError, match=words):
        read_answer(LocalFolder(tmp_path / "out"), "out")


@pytest.mark.parametrize("mode", RUNS)
def test_a_run_whose_state_lies_otherwise_is_refused_by_name_and_its_answer_is_read(mode, tmp_path):
    words = (
        r"has format 3; this version of Fogline reads 4\. .* an older Fogline: go on with that one, or begin with a new"
    )
    with pytest.raises(FoglineError, match=words):
        examples.resumed(KEPT / f"run-{mode}-3", tmp_path, RUNS[mode])
    assert read_answer(LocalFolder(tmp_path / "out"), "out").num_rows


# --- Another version of Fogline has written it -----------------------------------------------------------------------


def _raised(content: bytes, place: int, by: int = 1) -> bytes:
    return content[:place] + bytes([content[place] + by]) + content[place + 1 :]


def _in_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path.write_text(_changed(path.read_bytes(), change))


def _changed(content: bytes, change: Callable[[dict[str, Any]], None]) -> str:
    known = opened(content)
    assert known is not None
    change(known)
    return sealed(known)


def _beyond(by: int) -> int:
    return by if by > 0 else by - 1  # of what is packed, the format before is read, too


def a_snapshot(root: Path, by: int) -> None:
    fl.Monitor.restore(APPENDED, _raised((KEPT / "snapshot-append-8.bin").read_bytes(), 7, _beyond(by)))


def a_state(root: Path, by: int) -> None:
    examples._taken(_raised((KEPT / "group-state-4.bin").read_bytes(), len(STATE) - 1, by), examples._come(8, 8))


def packed_rows(root: Path, by: int) -> None:
    unpack_groups(examples._plan(), _raised((KEPT / "groups-8.bin").read_bytes(), 7, _beyond(by)))


def a_layout(root: Path, by: int) -> None:
    known = json.loads((KEPT / "layout-1.json").read_text())
    Layout.from_dict({**known, "format": known["format"] + by}, "in")


def a_repository(root: Path, by: int) -> None:
    shutil.copytree(examples.HISTORY, root / "r")
    manifest = root / "r" / "manifest.json"
    known = opened(manifest.read_bytes())
    assert known is not None
    manifest.write_text(sealed({**known, "format": known["format"] + by}))
    fl.Repository.load(root / "r")


def an_output(root: Path, by: int) -> None:
    shutil.copytree(KEPT / "run-append-4", root, dirs_exist_ok=True)
    _in_json(root / "out" / "about.json", lambda known: known.update(format=known["format"] + by))
    read_answer(LocalFolder(root / "out"), "out")


def a_checkpoint(root: Path, by: int) -> None:
    shutil.copytree(KEPT / "run-append-4", root, dirs_exist_ok=True)
    file = root / "out" / "checkpoint" / sqlite.FILE
    file.write_bytes(_raised(file.read_bytes(), 63, by))
    Embedded(config_of(RUNS["append"], root, moved=True)).start()


def a_stand(root: Path, by: int) -> None:
    shutil.copytree(KEPT / "run-append-4", root, dirs_exist_ok=True)
    (newest,) = (root / "out" / "answers").iterdir()
    table = pq.read_table(newest)
    known = _changed(table.schema.metadata[b"fogline"], lambda known: known.update(format=known["format"] + by))
    pq.write_table(table.replace_schema_metadata({b"fogline": known}), newest)
    read_answer(LocalFolder(root / "out"), "out")


FORMATS = (a_snapshot, a_state, packed_rows, a_layout, a_repository, an_output, a_checkpoint, a_stand)


@pytest.mark.parametrize("read", FORMATS, ids=lambda each: each.__name__)
def test_what_another_version_has_written_is_refused_with_the_way_out(read, tmp_path):
    for by, words in (
        (1, "a newer Fogline: install that one, or "),
        (-1, "an older Fogline: go on with that one, or "),
    ):
        (tmp_path / words[2:7]).mkdir()
        with pytest.raises(FoglineError, match=rf"has format \d+; this version of Fogline reads \d+.*{words}"):
            read(tmp_path / words[2:7], by)


@pytest.mark.parametrize("version", [7, 8])
def test_a_repository_whose_tree_lies_otherwise_is_refused_with_the_way_out(version):
    with pytest.raises(
        fl.errors.HistoryError, match=rf"has format {version}; this version of Fogline reads 9.* or fit it again"
    ):
        fl.Repository.load(KEPT / f"repository-{version}")


def test_a_field_of_about_that_this_version_does_not_know_is_refused_by_name(tmp_path):
    shutil.copytree(KEPT / "run-append-4", tmp_path, dirs_exist_ok=True)
    _in_json(tmp_path / "out" / "about.json", lambda known: known.update(colour="blue"))
    with pytest.raises(FoglineError, match=r"a newer Fogline, which knows of 'colour'.* choose another output"):
        Embedded(config_of(RUNS["append"], tmp_path, moved=True)).start()
    assert read_answer(LocalFolder(tmp_path / "out"), "out").num_rows  # it is read nonetheless


# --- Another query, or another way to run it -------------------------------------------------------------------------

OTHER_QUERIES: dict[str, Any] = {
    "attributes": {"attributes": {"a": "max", "b": "max"}},
    "id": {"id": "other"},
    "time": {"time": "other"},
    "lifetime": {"lifetime": 31},
    "expires": {"lifetime": None, "expires": "other"},
    "last": {"lifetime": None, "last": 3},
    "latest": {"latest": True},
    "gone": {"latest": True, "gone": "other"},
    "version": {"latest": True, "version": "other"},
    "carry": {"latest": True, "carry": ["a"]},
    "remember_removed": {"latest": True, "remember_removed": 9},
    "alpha": {"alpha": 0.4},
    "skyband": {"skyband": 3},
    "by": {"by": ()},
    "keep": {"keep": ["other"]},
    "limits": {"limits": {"a": (0, 5)}},
    "outside": {"outside": "reject"},
    "max_sensors": {"max_sensors": 9},
}
OTHER_RUNS: dict[str, Any] = {
    "every": ("batch", "tick"),
    "lateness": (7, "0"),
    "ahead": ("off", "auto"),
    "explain": (False, None),
    "engine": ("spark", None),
    "sinks": None,
    "repository": None,
    "hindsight": None,
}
MAY_CHANGE = {"stream", "output", "query", "idle", "moved", "keep_batches", "options", "topic", "accepts", "successor"}
MAY_CHANGE |= {"formers", "limits", "keeps"}  # what keeps its batches elsewhere is another list of sinks
MAY_CHANGE |= {"imputer"}  # the plan names it: state of another one is refused


def test_every_field_of_a_query_and_of_a_run_is_tried():
    assert OTHER_QUERIES.keys() == {each.name for each in fields(fl.Query)}
    asked = {each.name for each in fields(RunConfig)}
    assert asked - OTHER_RUNS.keys() - MAY_CHANGE == set(), "may a run go on with another one? Add it to either list."


def _named(name: str, base: fl.Query, other: fl.Query) -> str:
    was, now = (repr(each.to_dict()[name]) if name in each.to_dict() else "not given" for each in (base, other))
    return re.escape(f"{name} was {was} and is now {now}")


@pytest.mark.parametrize("name", OTHER_QUERIES)
def test_a_run_goes_on_with_no_other_query_and_names_the_field_with_both_values(name, tmp_path):
    other = replace(APPENDED, **OTHER_QUERIES[name])
    case = replace(RUNS["append"], query=other)
    shutil.copytree(KEPT / "run-append-4", tmp_path, dirs_exist_ok=True)
    with pytest.raises(FoglineError, match=_named(name, APPENDED, other)) as refused:
        Embedded(config_of(case, tmp_path, moved=True)).start()
    assert "Go on with the old one, or choose another output." in str(refused.value)


@pytest.mark.parametrize("name", OTHER_QUERIES)
def test_a_snapshot_is_restored_with_no_other_query_and_names_the_field_with_both_values(name):
    saved = (KEPT / "snapshot-append-8.bin").read_bytes()
    other = replace(APPENDED, **OTHER_QUERIES[name])
    with pytest.raises(FoglineError, match=_named(name, APPENDED, other)) as refused:
        fl.Monitor.restore(other, saved)
    assert "or begin with a new monitor" in str(refused.value)


def test_a_snapshot_of_the_newest_rows_names_what_differs_too():
    saved = (KEPT / "snapshot-latest-8.bin").read_bytes()
    with pytest.raises(
        FoglineError, match=r"remember_removed was 20\.0 and is now 21\.0\. Restore it with the query that"
    ):
        fl.Monitor.restore(replace(NEWEST, remember_removed=21), saved)


@pytest.mark.parametrize("name", [name for name, each in OTHER_RUNS.items() if each is not None])
def test_a_run_goes_on_in_no_other_way_and_names_both(name, tmp_path):
    now, was = OTHER_RUNS[name]
    other: dict[str, Any] = {name: now}
    shutil.copytree(KEPT / "run-append-4", tmp_path, dirs_exist_ok=True)
    with pytest.raises(FoglineError, match="choose another output") as refused:
        Embedded(replace(config_of(RUNS["append"], tmp_path, moved=True), **other)).start()
    words = str(refused.value)
    assert name in words
    assert was is None or (f"it was {was}" in words and f"now it is {now}" in words)


def test_a_run_goes_on_with_no_other_repository_and_with_no_other_hindsight(tmp_path):
    shutil.copytree(KEPT / "run-hindsight-3", tmp_path, dirs_exist_ok=True)
    case = RUNS["hindsight"]
    with pytest.raises(FoglineError, match=r"another hindsight.\n  it was True\n  now it is False\nGo on with the old"):
        Embedded(config_of(case, tmp_path, moved=True, hindsight=False)).start()
    other = fl.Repository.fit(examples.walked(20, 60, 0.0), case.query)
    with pytest.raises(FoglineError, match=rf"it was {kept_repository().fingerprint}\n  now it is {other.fingerprint}"):
        Embedded(replace(config_of(case, tmp_path, moved=True), repository=other)).start()
    with pytest.raises(FoglineError, match=r"(?s)begun with another repository.*now it is None.*--accept-repository"):
        Embedded(replace(config_of(case, tmp_path, moved=True), repository=None)).start()


def test_a_run_may_be_silent_for_longer_and_keep_fewer_batches_when_it_goes_on(tmp_path):
    case = RUNS["append"]
    examples.resumed(KEPT / "run-append-4", tmp_path, case, idle=1000, keep_batches=1)
    assert read_answer(LocalFolder(tmp_path / "out"), "out").num_rows
