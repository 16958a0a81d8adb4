"""Does loading execute nothing, do secrets stay secret, and does nothing that rows hold reach a terminal raw?"""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import stat
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.errors import FoglineError, HistoryError, QueryError, SnapshotError
from fogline.kafka.client import TopicOptions, read_config
from fogline.kernels import compile as machine_code
from fogline.page.app import page_of
from fogline.page.security import LineLog
from fogline.repository import cache, store
from fogline.saved import sealed
from fogline.sinks.places import sink_for
from tests.page.browsing import Browser
from tests.page.writing import small
from tools import audit

SOURCE = Path(fl.__file__).parent
QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=9)
HUSH = "hush-4f1c"
EVIL = "\x1b[2J\x1b]0;owned\x07\u202ereversed"

# --- Loading executes nothing -----------------------------------------------------------------------------------------

ALLOWED = {  # where a name that could execute data may stand, and why
    ("kernels/compile.py", "pickle"): "machine code, which is run anyway; its digest is compared first",
    ("spark/preflight.py", "pickle"): "written only: a number, as Spark's own partitioner does",
    ("spark/processors.py", "CloudPickleSerializer"): "what Spark's driver sends its own workers",
    ("spark/preflight.py", "cloudpickle"): "what Spark's driver sends its own workers",
}
IMPORTS = {  # where a module is imported by a name that is no literal: each name is one of a table in the source
    "face.py", "sinks/places.py", "spark/daemon.py", "spark/probe.py",
}  # fmt: skip
EXECUTING = {"pickle", "cPickle", "cloudpickle", "CloudPickleSerializer", "dill", "marshal", "shelve", "joblib"}


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(each.name for each in node.names)]
    return []


def test_nothing_in_the_source_executes_what_it_reads():
    found, imports = set(), set()
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found |= {(name, each) for each in _modules(node) if each.split(".")[0] in EXECUTING}
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in ("eval", "exec", "compile", "__import__"):
                found.add((name, called))
            if called.startswith("yaml.") and called.endswith(("load", "load_all")):
                found.add((name, called))
            if any(each.arg == "allow_pickle" for each in node.keywords):
                found.add((name, "allow_pickle"))
            if called.endswith("import_module") and not isinstance(node.args[0], ast.Constant):
                imports.add(name)
    assert found == set(ALLOWED)
    assert imports == IMPORTS


class Bomb:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, (os.environ["FOGLINE_BOMB"],)


@pytest.fixture
def bomb(tmp_path, monkeypatch):
    """The folder that is there once something was executed."""
    place = tmp_path / "executed"
    monkeypatch.setenv("FOGLINE_BOMB", str(place))
    return place


def _repository(folder: Path) -> fl.Repository:
    rows = [{"id": str(k), "t": k, "a": float(k), "b": k * 2.0} for k in range(20)]
    fl.Repository.fit(rows, QUERY, method="mean").save(folder)
    return fl.Repository.load(folder)


def test_hostile_payloads_of_every_format_are_refused_and_run_nothing(tmp_path, bomb, monkeypatch):
    loaded = pickle.dumps(Bomb())
    for content in (loaded, b"FOGLINE\x07" + loaded):
        with pytest.raises(SnapshotError):
            fl.Monitor.restore(QUERY, content)
    path = tmp_path / "q.yaml"
    path.write_text(f"attributes: !!python/object/apply:os.mkdir ['{bomb}']\nid: a\ntime: t\n")
    with pytest.raises(QueryError):
        fl.Query.load(path)
    _repository(tmp_path / "r")
    [version] = (tmp_path / "r").glob("version-*")
    manifest = json.loads((version / "manifest.json").read_text())
    reference = manifest["history"]["History"]["columns"]["mapping"]["a"]["Column"]["values"]["array"]
    np.save(version / reference[0], np.array([Bomb()], object), allow_pickle=True)
    reference[1:] = [(version / reference[0]).stat().st_size, _crc(version / reference[0])]
    (version / "manifest.json").write_text(sealed(manifest))
    with pytest.raises(HistoryError, match="is no array of numbers"):
        fl.Repository.load(tmp_path / "r")
    function = machine_code.KernelCache(test_hostile_payloads_of_every_format_are_refused_and_run_nothing)
    assert function is not None
    with pytest.raises(ValueError, match="not what was written"):
        machine_code._opened(loaded)
    assert not bomb.exists()
    pickle.loads(loaded)
    assert bomb.exists()  # it would have


def _crc(path: Path) -> int:
    from fogline.durable import checksum

    return checksum(path)


def test_names_in_a_repository_lead_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.PLACE, str(tmp_path / "cache"))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    known = _repository(tmp_path / "r")
    whole = tmp_path / "r" / "manifest.json"
    for name in ("../outside", str(outside), "..", "", 7):
        whole.write_text(sealed({"format": store.FORMAT, "newest": name}))
        with pytest.raises(HistoryError, match="damaged"):
            fl.Repository.load(tmp_path / "r")
    packed = tmp_path / "evil.tar"
    with tarfile.open(packed, "w") as file:
        entry = tarfile.TarInfo("../../outside/kept")
        entry.size = 4
        file.addfile(entry, io.BytesIO(b"evil"))
    with pytest.raises((HistoryError, tarfile.TarError)):
        cache.unpacked(known.fingerprint, lambda: packed)
    assert (outside / "kept").read_bytes() == b""


# --- Secrets ----------------------------------------------------------------------------------------------------------


def test_a_planted_secret_is_in_nothing_that_is_written_or_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUSH", HUSH)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,t,a,b\nx,1,2,3\n")
    (tmp_path / "q.yaml").write_text("attributes: {a: max, b: max}\nid: id\ntime: t\nlifetime: 9\n")
    properties = tmp_path / "kafka.properties"
    properties.write_text(f"security.protocol=SASL_SSL\nsasl.username=me\nsasl.password={HUSH}\nbad line\n")
    common = ["run", "in", "-q", "q.yaml", "-o", "out", "--engine", "embedded"]
    places = (
        f"postgresql://me:{HUSH}@localhost:1/db", f"postgresql://localhost:1/db?password={HUSH}",
        "postgresql://me:${HUSH}@localhost:1/db", f"webhook+http://localhost:1/x?token={HUSH}",
        "webhook+http://localhost:1/x?token=${HUSH}", f"webhook+http://localhost:1/{HUSH}/T0",
        "webhook+http://localhost:1/${HUSH}", f"https://localhost:1/{HUSH}", f"kafka://me:{HUSH}@localhost:1/t",
    )  # fmt: skip
    printed = [CliRunner().invoke(app, [*common, "--to", place]).output for place in places]
    printed.append(CliRunner().invoke(app, common).output)
    printed.append(CliRunner().invoke(app, ["run", "--help"]).output)
    printed.append(CliRunner().invoke(app, ["check", f"kafka://me:{HUSH}@h/t", "-q", "q.yaml"]).output)
    monkeypatch.setenv("FOGLINE_TOKEN", HUSH * 3)
    printed.append(CliRunner().invoke(app, ["serve", "--help"]).output)
    with pytest.raises(FoglineError) as bad:
        read_config(properties)
    printed += [str(bad.value), repr(TopicOptions(config={"sasl.password": HUSH}))]
    with pytest.raises(FoglineError) as typed:
        sink_for(f"postgresql://me:{HUSH}@host/db", typed=True)
    printed.append(str(typed.value))
    assert "holds a password" in printed[0]
    assert "PGPASSWORD" in printed[0]
    assert not [text for text in printed if HUSH in text]
    written = [each for each in (tmp_path / "out").rglob("*") if each.is_file()]
    assert written
    assert not [each for each in written if HUSH.encode() in each.read_bytes()]


def test_the_log_of_the_page_leaves_out_its_token(tmp_path):
    small(tmp_path)
    lines = io.StringIO()
    page = page_of(str(tmp_path), token=HUSH * 3, log=LineLog(lines))
    page.store.poll()
    browser = Browser(page.app)
    for path in (f"/?token={HUSH * 3}", f"/api/answer?token={HUSH * 3}", f"/api/answer?token={HUSH}"):
        assert HUSH not in browser.get(path).text
    assert lines.getvalue().count("request") == 3
    assert HUSH not in lines.getvalue()


# --- Files ------------------------------------------------------------------------------------------------------------


def test_with_a_strict_umask_no_other_user_reads_what_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(cache.PLACE, str(tmp_path / "cache"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,t,a,b\nx,1,2,3\ny,2,,3\n")
    made = Path("in"), Path("in/a.csv")
    before = os.umask(0o077)
    try:
        run = CliRunner().invoke
        Path("q.yaml").write_text("attributes: {a: max, b: max}\nid: id\ntime: t\nlifetime: 9\n")
        assert run(app, ["run", "in", "-q", "q.yaml", "-o", "out", "--engine", "embedded"]).exit_code == 0
        assert run(app, ["answer", "out", "-o", "answer.csv"]).exit_code == 0
        known = _repository(Path("r"))
        cache.pack(Path("r"), known.fingerprint, Path("packed.tar"))
        cache.unpacked(known.fingerprint, lambda: Path("packed.tar"))
    finally:
        os.umask(before)
    others = [each for each in Path().rglob("*") if each not in made and each.lstat().st_mode & 0o077]
    assert not others
    assert len(list(Path().rglob("*"))) > 15


def test_a_folder_in_the_temporary_one_is_used_only_if_it_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.delenv(cache.PLACE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setattr(cache, "gettempdir", lambda: str(tmp_path))
    place = tmp_path / f"fogline-repositories-{os.getuid()}"
    assert cache.root() == place
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    place.chmod(0o777)
    with pytest.raises(HistoryError, match="can be kept in none of"):
        cache.root()
    place.rmdir()
    (tmp_path / "another").mkdir()
    place.symlink_to(tmp_path / "another")
    with pytest.raises(HistoryError, match="can be kept in none of"):
        cache.root()


# --- Terminals --------------------------------------------------------------------------------------------------------


def test_what_rows_hold_does_not_reach_a_terminal_raw(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    rows = {"id": [EVIL, "b", "c"], "g": [EVIL] * 3, "t": ["1", "2", EVIL], "a": [1.0, 2.0, 3.0], "b": [2.0, 1.0, 0.0]}
    pq.write_table(pa.table(rows), "in/a.parquet")
    Path("q.yaml").write_text("attributes: {a: max, b: max}\nid: id\ntime: t\nlifetime: 9\nby: [g]\n")
    words = ["in", "-q", "q.yaml"]
    run, escaped = ["run", *words, "-o", "out", "--engine", "embedded"], 0
    for command in (
        ["check", *words, "--clock", "number"], [*run, "--clock", "number"], [*run, "--explain"], ["answer", "out"],
        ["explain", "--replay", *words, "--id", EVIL],
        ["explain", "--replay", *words, "--id", "none"], ["next", "out"], ["answer", "out", "--where", f"{EVIL} > 1"],
        ["answer", EVIL], ["serve", "out", "--host", EVIL], ["rules", EVIL],
    ):  # fmt: skip
        shown = CliRunner().invoke(app, command, color=True).output
        assert not [each for each in ("\x1b]", "\x1b[2J", "\x07", "\u202e") if each in shown], command
        escaped += shown.count(r"\x1b[2J")
    assert escaped > 5  # it was shown, as what it is


# --- What is installed ------------------------------------------------------------------------------------------------


def test_a_licence_that_is_not_permissive_or_not_known_is_refused():
    class Named:
        version = "1"

        def __init__(self, licence: str) -> None:
            self.metadata = _Headers({"License-Expression": licence})

    class _Headers(dict[str, str]):
        def get_all(self, name: str) -> list[str]:
            return []

    found: dict[str, Any] = {
        name: Named(name) for name in ("MIT", "LGPL-3.0-only", "GPL-3.0", "AGPL-3.0", "", "BSD-3-Clause")
    }
    assert [each.partition(" ")[0] for each in audit.refused_licences(found)] == [
        "",
        "AGPL-3.0",
        "GPL-3.0",
        "LGPL-3.0-only",
    ]
    assert audit.unpinned(found, "mit==1\n")[0].endswith("has no line in constraints.txt")
