"""Which Spark session makes a streaming skyline fast, and what will hurt in one that is there already?

A micro-batch costs what its settings make it cost: with Spark's defaults a tiny stateful batch takes seconds (200
shuffle partitions, each with a state store of its own), with these a fraction of one. Nothing here changes an answer.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from weakref import WeakSet

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fogline.errors import FoglineError
from fogline.spark.connect import is_remote, remote
from fogline.spark.errors import SPARK_REPORTS, not_started
from fogline.spark.java import find_java, without_flags
from fogline.spark.partitions import (
    AT_LEAST,
    AT_MOST,
    PARTITIONS,
    context_of,
    grows,
    is_local,
    master_of,
    parts,
    parts_of_new,
    setting,
)
from fogline.spark.stderr import stderr_to
from fogline.spark.workers import QUIET, scratch, socket_folder

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FILES = "spark.sql.streaming.checkpointFileManagerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PLAIN_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"  # no fork per file
)

# For what lasts less than a minute: machine code that is optimised for long costs more than it gains, half of all that
# the JVM does until the first answer.
BRISK_JVM = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
COUNTING = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
RETAINED = "spark.sql.streaming.minBatchesToRetain"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
ZONE = "spark.sql.session.timeZone"
_OF_A_SESSION = (PROVIDER, FORMAT, FILES, CHANGELOG, COUNTING, RETAINED, ZONE)  # what each session of a server may have

_ANY_MASTER = "local[*]"
_advised: WeakSet[SparkSession] = WeakSet()  # what would hurt them has been stated
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_PYTHON = "spark.pyspark.python"
_SOCKETS = "spark.python.unix.domain.socket.enabled"
_SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"


class SparkAdvice(UserWarning):
    """A setting of the Spark session that will cost time or memory, and what to set instead."""


def session(
    master: str = _ANY_MASTER,
    *,
    memory: str | None = None,
    name: str = "fogline",
    settings: Mapping[str, Any] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """A quiet session with the settings a streaming skyline likes; `settings` are Spark's own and have the last word.

    `master` may also be the address of a Spark Connect server, `sc://host:port`: the session is then one of that
    server, with those of the settings that are not the server's alone.
    `memory` is the driver's, such as "4g": with a local master everything lives in it. A session that already runs is
    returned as it is: only `settings` change it, and warnings name what will hurt and what was asked for but cannot be
    had. On a cluster, workers run what `spark.pyspark.python` or the environment's PYSPARK_PYTHON names. What a new
    JVM writes to stderr goes to `log`, if there is one, instead of this process's stderr.
    """
    _gigabytes(memory)
    if is_remote(master):
        spark, advice = _of_server(master, memory, name, settings or {})
    elif SparkContext._active_spark_context is not None:
        spark = SparkSession.builder.getOrCreate()
        advice = [*_kept(spark, master, memory), *_changed(spark, settings or {}), *_advice_once(spark)]
    else:
        chosen, ran = tuned(master, memory=memory, settings=settings), SparkContext._gateway is not None
        master = chosen["spark.master"]  # settings have the last word
        if is_local(master) and chosen[_SOCKETS] == "true":
            chosen.setdefault(_SOCKET_FOLDER, str(socket_folder()))
        with _ready(master, chosen.get(_PYTHON)), nullcontext() if ran else stderr_to(log):
            try:
                spark = SparkSession.builder.appName(name).config(map=chosen).getOrCreate()
            except (PySparkException, Py4JError) as error:
                raise not_started(error, master, log) from error
        advice = _kept(spark, master, memory) if ran else []
        if PARTITIONS not in chosen:
            spark.conf.set(PARTITIONS, str(parts_of_new(spark)))
            advice += _fixed(spark)
        if not is_local(master) and _PYTHON not in chosen and "PYSPARK_PYTHON" not in os.environ:
            advice.append(
                f"PYSPARK_PYTHON is not set, so the workers of {master} run their own python3. Set it to a Python with "
                f'Fogline that lies there, or pass settings={{"{_PYTHON}": …}}.'
            )
    for text in advice:
        warnings.warn(text, SparkAdvice, stacklevel=2)
    return spark


def _of_server(url: str, memory: str | None, name: str, settings: Mapping[str, Any]) -> tuple[SparkSession, list[str]]:
    """A session of a Connect server, and what was asked for but cannot be had."""
    spark, kept = remote(url, name, {key: _text(value) for key, value in settings.items()})
    likes = {key: value for key, value in tuned(master_of(spark), settings=settings).items() if key in _OF_A_SESSION}
    for key, value in ({PARTITIONS: str(parts_of_new(spark))} | likes).items():
        if key not in settings and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    if memory is not None:
        kept.append(f"memory={memory!r} is for a JVM of this process; that of {url!r} has what it was started with.")
    return spark, kept


@contextmanager
def for_a_while(
    *, master: str = _ANY_MASTER, memory: str | None = None, settings: Mapping[str, Any] | None = None
) -> Iterator[SparkSession]:
    """A session for one command: stopped at the end; one that ran before is left as it is, whatever the settings.

    What Spark logs is kept only if it fails.
    """
    ran = SparkContext._active_spark_context is not None
    log = Path(mkdtemp(prefix="log-", dir=scratch())) / "spark.log"
    try:
        spark = session(master=master, memory=memory, settings=None if ran else settings, log=log)
        try:
            yield spark
        finally:
            if not ran:
                with suppress(Py4JError, ConnectionError):  # it has ended already; why, is on its way
                    spark.stop()
    except BaseException as error:
        if str(error).startswith(SPARK_REPORTS) and log.exists():
            with log.open("a", encoding="utf-8") as file:
                traceback.print_exception(error, file=file)
            kept = shutil.move(log, Path(mkdtemp(prefix="fogline-log-")) / log.name)
            error.add_note(f"What Spark logged is in {kept}")
        raise
    finally:
        shutil.rmtree(log.parent, ignore_errors=True)


def tuned(
    master: str = _ANY_MASTER, *, memory: str | None = None, settings: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """What `session` sets, but the number of shuffle partitions (see `partitions`) and the folder of Unix sockets."""
    chosen = {
        "spark.master": master,
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
        COUNTING: "false",
        _SOCKETS: "true",
        RETAINED: "10",  # versions of state on disk, instead of 100
        "spark.python.daemon.module": "fogline.spark.daemon",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        ZONE: "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    chosen |= {f"spark.executorEnv.{key}": value for key, value in QUIET.items()}
    if is_local(master):
        chosen |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        chosen |= {FILES: PLAIN_FILES}  # elsewhere checkpoints may lie where a rename is not atomic: Spark knows better
    if memory is not None:
        chosen["spark.driver.memory"] = memory
    chosen |= {key: _text(value) for key, value in (settings or {}).items()}
    if keeps_streams(chosen[PROVIDER]):
        chosen.setdefault(FORMAT, "2")
    if "log4j2.configurationFile" not in chosen.get(_JAVA_OPTIONS, ""):
        log = Path(__file__).with_name("log4j2.properties").as_uri()
        chosen[_JAVA_OPTIONS] = f"{chosen.get(_JAVA_OPTIONS, '')} -Dlog4j2.configurationFile={log}".strip()
    return chosen


def advise(spark: SparkSession) -> list[str]:
    """What in this session will hurt a streaming skyline, and what to set: one sentence or two each, or none at all."""
    advice = []
    partitions, fit = int(setting(spark, PARTITIONS, "200")), parts(spark)
    if partitions > 2 * (fit or AT_LEAST):
        advice.append(
            f"{PARTITIONS} is {partitions}{f' on {fit} cores' if fit else ''}, and every micro-batch opens that many "
            f'state stores. Before the query first starts, spark.conf.set("{PARTITIONS}", "{fit or AT_LEAST}"); its '
            "checkpoint keeps it."
        )
    if _files_are_local(spark) and setting(spark, FILES, "") != PLAIN_FILES:
        advice.append(
            "checkpoints on local disks are slow with Spark's default file manager. "
            f'Before the query starts, spark.conf.set("{FILES}", "{PLAIN_FILES}").'
        )
    return advice


def keeps_streams(provider: str) -> bool:
    """Whether this state store can keep the state of a stream: Spark's `transformWithState` asks for RocksDB."""
    return "RocksDB" in provider


def must_keep_streams(spark: SparkSession) -> None:
    """Refuse a session whose state store cannot keep the state of a stream; Spark would, in the first batch."""
    provider = setting(spark, PROVIDER, ROCKSDB)
    if not keeps_streams(provider):
        raise FoglineError(
            f"this session keeps the state of streams in {provider.rpartition('.')[2]}, and Fogline needs RocksDB. "
            f'Before watch, call spark.conf.set("{PROVIDER}", "{ROCKSDB}"), or take the session that '
            "fl.spark.session() makes."
        )


@contextmanager
def starting_a_query(spark: SparkSession, partitions: int | None = None) -> Iterator[None]:
    """A query that is started meanwhile keeps its state in RocksDB, in checkpoint format 2, in so many partitions.

    In format 2 a commit names the state that belongs to it: state that another attempt of a task has left, which was
    killed or was slower, is never read. A checkpoint that is there already keeps its format, which Spark reads from its
    commits. Settings that the user has made stay, but for another state store, which cannot work. The session itself is
    as before afterwards: a query copies the settings when it is started.
    """
    before, chosen = spark.conf.getAll, dict[str, str]()
    if not keeps_streams(setting(spark, PROVIDER, "")):
        chosen[PROVIDER] = ROCKSDB
    if FORMAT not in before:
        chosen[FORMAT] = "2"
    if partitions is not None:
        chosen[PARTITIONS] = str(partitions)
    try:
        for key, value in chosen.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in chosen:
            if key in before:
                spark.conf.set(key, before[key])
            else:
                spark.conf.unset(key)


def warn_once(spark: SparkSession, *, stacklevel: int = 2) -> None:
    """Emit the advice for this session as warnings, the first time only; they point at the caller of our caller."""
    for text in _advice_once(spark):
        warnings.warn(text, SparkAdvice, stacklevel=stacklevel + 1)


def _advice_once(spark: SparkSession) -> list[str]:
    if spark in _advised:
        return []
    _advised.add(spark)
    return advise(spark)


@contextmanager
def _ready(master: str, python: str | None) -> Iterator[None]:
    """The environment in which a JVM finds Java, and Spark the Python of its workers: here, the one that we are."""
    more = {"PYSPARK_PYTHON": sys.executable} if is_local(master) else {"PYSPARK_PYTHON": python} if python else {}
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:  # a JVM is yet to come
        more["JAVA_HOME"] = str(_quiet(find_java()))
        more["PYSPARK_DRIVER_PYTHON"] = os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable)  # what it runs here
    before = {key: os.environ.get(key) for key in more}
    try:
        os.environ |= more
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _quiet(home: Path) -> Path:
    """The flags that this drops make every JVM print warnings, and speed up nothing that Fogline does."""
    try:
        return without_flags(home)
    except OSError:
        return home  # noisier, but it works


def _kept(spark: SparkSession, master: str, memory: str | None) -> list[str]:
    """What was asked for and cannot be had from a JVM that already runs."""
    kept = []
    if (there := master_of(spark)) != master != _ANY_MASTER:
        kept.append(f"a session already runs on {there}, and stays there. Stop it before asking for {master!r}.")
    asked, got = _gigabytes(memory), spark._jvm.java.lang.Runtime.getRuntime().maxMemory() / 2**30
    if asked is not None and abs(asked - got) > 0.1 * asked:  # some collectors keep a part for themselves
        kept.append(
            f"the JVM of this process already runs with {got:.1f} GB of memory, and keeps it. "
            f"Ask for memory={memory!r} in the first session of a new process."
        )
    return kept


def _changed(spark: SparkSession, settings: Mapping[str, Any]) -> list[str]:
    """Change what can be changed; what cannot be."""
    kept = []
    for key, value in settings.items():
        if (there := setting(spark, key, "not set")) == _text(value):
            continue
        if spark.conf.isModifiable(key):
            spark.conf.set(key, _text(value))
        else:
            kept.append(f"{key} is {there} in the session that already runs, and stays so. Stop it before changing it.")
    return kept


def _fixed(spark: SparkSession) -> list[str]:
    """What to know about a number of partitions that is chosen before the cluster is there."""
    if not grows(spark):
        return []
    chosen = spark.conf.get(PARTITIONS)
    return [
        f"dynamic allocation is on, so {PARTITIONS} is {chosen}: the cores of the most executors it may have, between "
        f"{AT_LEAST} and {AT_MOST}. A checkpoint keeps the number of its first run for life; if there will be another "
        f'number of cores, pass settings={{"{PARTITIONS}": …}}.'
    ]


def _gigabytes(memory: str | None) -> float | None:
    if memory is None:
        return None
    given = re.fullmatch(r"(\d+)([kmgt])b?", str(memory).lower())
    if given is None or int(given[1]) == 0:
        raise FoglineError(f"memory is {memory!r}; write a whole number with its unit, such as '4g' or '512m'.")
    return int(given[1]) * 1024.0 ** ("kmgt".index(given[2]) - 2)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _files_are_local(spark: SparkSession) -> bool:
    context = context_of(spark)
    if context is None or not is_local(master_of(spark)):
        return False
    return str(context._jsc.hadoopConfiguration().get("fs.defaultFS") or "").startswith("file:")
