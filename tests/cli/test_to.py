"""Do `--to` and `--checkpoint` put batches where they are asked to, and refuse what cannot be meant?"""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fogline.cli import app
from tests.edges.test_starting import place, run

__all__ = ["place"]
HERE = ("in", "-q", "q.yaml", "--engine", "embedded")


def test_batches_go_to_several_places_beside_the_output_and_instead_of_it(place):
    shown = run(*HERE, "-o", "out", "--to", "other", "--to", "third")
    assert f", {place}/other, {place}/third" in shown.replace("\n", "")
    assert "See the answer with: fogline answer out" in shown
    alone = run(*HERE, "--checkpoint", "run", "--to", "alone")
    assert f" s: {place}/alone\n" in alone
    assert "fogline answer" not in alone
    expected = pq.read_table(place / "out" / "changes")
    for name in ("other", "third", "alone"):
        assert pq.read_table(place / name / "changes").equals(expected)
    assert sorted(path.name for path in (place / "run").iterdir()) == [".lock", "about.json", "checkpoint"]
    assert json.loads((place / "run" / "about.json").read_text())["sinks"] == [f"{place}/alone"]
    assert "no new files" in run(*HERE, "--checkpoint", "run", "--to", "alone")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "say where the answer goes: --output FOLDER"),
        (("--to", "x"), "--to without --output needs --checkpoint FOLDER"),
        (("--checkpoint", "run"), "say where the answer goes"),
        (
            ("-o", "out", "--checkpoint", "run"),
            "--output keeps what a restart needs itself; leave --checkpoint run",
        ),
        (("-o", "out", "--to", "mysql://h/db"), "there is no sink 'mysql', as in 'mysql://h/…'"),
        (("-o", "out", "--to", "postgresql://me:hush@h/db?table=t"), "'postgresql://me@h/db?table=t' holds a password"),
        (("-o", "out", "--to", "out"), "is the output itself"),
        (("-o", "out", "--to", "x", "--to", "x"), "is named twice"),
        (("-o", "out", "--to", "x", "--to", "./x"), "/x is named twice"),
        (("-o", "out", "--to", "delta:x", "--to", "delta:./x"), "/x is named twice"),
        (("-o", "out", "--to", "delta:x", "--to", "x"), "are one folder, or one lies in the other"),
        (("-o", "out", "--to", "out/changes"), "are one folder, or one lies in the other"),
        (("-o", "out/more", "--to", "out"), "are one folder, or one lies in the other"),
        (("--checkpoint", "out", "--to", "out/checkpoint"), "are one folder, or one lies in the other"),
        (("-o", "out", "--to", ""), "a place to write to is empty"),
        (("-o", "out", "--to", "in"), "/in' is what is read: it would be read again"),
        (("-o", "out", "--to", "delta:in/d"), "/in/d' lies in 'in', which is read"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_leaves_nothing(place, words, text):
    shown = " ".join(run(*HERE, *words, code=2).split())
    assert text in shown
    assert "hush" not in shown
    assert sorted(path.name for path in place.iterdir()) == ["in", "q.yaml"]
    assert [path.name for path in (place / "in").iterdir()] == ["a.csv"]


@pytest.mark.parametrize("to", ["kafka://h/t", "kafka://i:9,h:9092/t", "kafka://h/u?rejects=t"])
def test_a_topic_is_not_read_and_written_at_once(place, to):
    shown = " ".join(run("kafka://h:9092/t", "-q", "q.yaml", "-o", "out", "--to", to, code=2).split())
    assert "writes to the topic that is read: it would be read again. Name another topic." in shown


def test_the_folder_of_a_checkpoint_alone_names_where_the_answer_is(place):
    run(*HERE, "--checkpoint", "run", "--to", "alone")
    result = CliRunner().invoke(app, ["answer", "run"], env={"COLUMNS": "160"})
    assert result.exit_code == 2
    assert f"'run' holds the checkpoint of a run alone; its answer is in {place}/alone" in " ".join(
        result.output.split()
    )


def test_a_sink_that_fails_is_named_in_one_sentence(place):
    (place / "other").write_text("a file, where a folder is needed")
    shown = run(*HERE, "-o", "out", "--to", "other", code=2)
    words = f"{place}/other cannot be begun with: '{place}/other/about.json': not a directory. When that is mended"
    assert words in " ".join(shown.split())
    assert "Traceback" not in shown
