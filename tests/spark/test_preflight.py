"""Does the preflight name what a worker cannot do? Without a cluster: that is in tests/integration/test_cluster.py."""

from __future__ import annotations

import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark import cloudpickle

import fogline
import fogline as fl
from fogline.spark import preflight, probe
from fogline.spark.preflight import Executor

MACHINE = Executor("7", "node-3")


def repository(folder):
    rows = [{"id": str(k), "t": k, "a": float(k)} for k in range(9)]
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=9)
    fl.Repository.fit(rows, query, method="mean").save(folder)
    return fl.Repository.load(folder)


def asked(places=(), given=None, token="t"):
    return {"packages": ("fogline", "numpy", "no-such"), "places": list(places), "token": token, "repository": given}


def found(**more):
    versions = {"fogline": fogline.__version__, **dict.fromkeys(preflight.BESIDE, "1")}
    return {"number": 0, "python": preflight._python(), "executable": "/py", "versions": versions, "places": [],
            "repository": None, "daemon": "d", **more}  # fmt: skip


def test_a_worker_states_its_python_its_packages_and_what_it_sees(tmp_path):
    known = repository(tmp_path / "r")
    for name in ("shared", "other", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "shared" / "driver").write_text("t")
    (tmp_path / "other" / "driver").write_text("another run's")
    places = [str(tmp_path / name) for name in ("shared", "other", "empty", "none")]
    (seen,) = probe.probe(asked(places, (str(tmp_path / "r"), known.fingerprint)), [3])
    assert seen["number"] == 3
    assert seen["python"] == f"3.{sys.version_info.minor}"
    assert seen["versions"]["fogline"] == fogline.__version__
    assert seen["versions"]["no-such"] is None
    assert seen["places"] == [None, "not seen", "not seen", "not seen"]
    assert (tmp_path / "shared" / "3").read_text() == "t"
    assert seen["repository"] is None
    for folder, mark, trouble in ((tmp_path / "r", "0" * 64, "other"), (tmp_path / "empty", known.fingerprint, "none")):
        (seen,) = probe.probe(asked(given=(str(folder), mark)), [0])
        assert seen["repository"] == trouble


def test_it_is_asked_where_there_is_no_fogline(tmp_path):
    cloudpickle.register_pickle_by_value(probe)
    try:
        sent = cloudpickle.dumps(probe.probe)
    finally:
        cloudpickle.unregister_pickle_by_value(probe)
    (tmp_path / "sent").write_bytes(pickle.dumps((sent, asked())))
    code = (
        "import pickle, sys; sys.modules['fogline'] = None\n"
        f"sent, asked = pickle.load(open({str(tmp_path / 'sent')!r}, 'rb'))\n"
        "print(list(pickle.loads(sent)(asked, [0]))[0]['versions'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'fogline': None, 'numpy': '" in done.stdout


def test_each_failure_is_a_sentence_with_the_machine_and_the_way_out(tmp_path):
    known = repository(tmp_path / "r")
    places = {"output": "/mnt/out"}

    def wrong(**more):
        return list(preflight._wrong(found(**{"places": [None], **more}), MACHINE, places, known))

    assert wrong() == []
    (text,) = wrong(places=["not seen"])
    assert text.startswith("node-3 (executor 7) does not see the output '/mnt/out' that this driver writes: it must ")
    assert "hdfs://" in text
    (text,) = wrong(places=["not written: [Errno 13] Permission denied"])
    assert "cannot use the output '/mnt/out', which was not written: [Errno 13]" in text
    (text,) = wrong(versions={**found()["versions"], "fogline": "0.0.1"})
    assert f"has Fogline 0.0.1, and this driver {fogline.__version__}: install the same version there" in text
    (text,) = wrong(versions={**found()["versions"], "fogline": None})
    assert "node-3 (executor 7) has no package 'fogline': its Python, /py, cannot import it. Install" in text
    (text,) = wrong(python="3.99")
    assert f"runs Python 3.99, and this driver {preflight._python()}: set PYSPARK_PYTHON" in text
    (text,) = wrong(repository="none")
    assert f"node-3 (executor 7) has no repository {known.fingerprint[:12]}… in '{tmp_path}/r', which this run" in text
    (text,) = wrong(repository="other")
    assert "holds another repository" in text
    assert "fetched once by each machine" in text


def test_what_a_worker_wrote_and_the_driver_does_not_see_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "PAUSE", 0.0)
    with preflight._tokens([tmp_path]) as (token, folders):
        seen = [found(places=[None], number=0), found(places=["not seen"], number=1)]
        there = [MACHINE, Executor("8", "node-4")]
        unread = list(preflight._not_read(seen, there, {"output": str(tmp_path)}, folders, token))
        assert len(unread) == 1
        assert unread[0].startswith("what node-3 (executor 7) writes into the output")
        next(iter(probe.probe(asked(folders, token=token), [0])))
        assert list(preflight._not_read(seen, there, {"output": str(tmp_path)}, folders, token)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_cannot_be_asked_is_named_by_sparks_words():
    machine = "10.0.0.4 (executor 2)"
    missing = (
        "org.apache.spark.SparkException: \nError from python worker:\n  ModuleNotFoundError: No module named 'fogline'"
    )
    assert preflight._not_asked(missing, machine).startswith("10.0.0.4 (executor 2) has no package 'fogline'")
    other = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark"
    assert preflight._not_asked(other, machine).startswith("10.0.0.4 (executor 2) runs Python 3.12, and this driver")
    crash = 'java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory\n\tat java'
    text = f"{crash}\nCaused by: java.io.IOException: error=2, No such file or directory"
    shown = preflight._not_asked(text, machine)
    assert shown == "10.0.0.4 (executor 2) cannot run Python: IOException: error=2, No such file or directory"


def test_other_versions_and_executors_that_were_busy_are_remarked(monkeypatch):
    monkeypatch.setattr(preflight, "metadata", SimpleNamespace(version=lambda name: "1"))
    texts: list[str] = []
    odd = found(number=1, versions={**found()["versions"], "numpy": "0.9"})
    preflight._remark([found(), odd], [MACHINE, Executor("8", "node-4")], texts.append)
    assert texts == [
        "node-4 (executor 8) has numpy 0.9, this driver 1. Install the same version on all machines to be safe.",
        "1 of 2 executors had no free core to be checked on.",
    ]


def test_one_machine_has_nothing_to_look_at(spark, monkeypatch):
    monkeypatch.setattr(preflight, "awaited", pytest.fail)
    preflight.preflight(spark, {"output": "/no/such/folder"}, None)
