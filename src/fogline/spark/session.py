"""Which Spark session makes a streaming skyline fast, and what will hurt in one that is there already?

A micro-batch costs what its settings make it cost: with Spark's defaults a tiny stateful batch takes seconds (200
shuffle partitions, each with a state store of its own), with these a fraction of one. Nothing here changes an answer.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fogline.errors import FoglineError
from fogline.spark.errors import SPARK_REPORTS
from fogline.spark.java import find_java, without_flags
from fogline.spark.stderr import stderr_to

PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FILES = "spark.sql.streaming.checkpointFileManagerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PLAIN_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"  # no fork per file
)

_ANY_MASTER = "local[*]"
_ADVISED = "spark.fogline.advised"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


class SparkAdvice(UserWarning):
    """A setting of the Spark session that will cost time or memory, and what to set instead."""


def session(
    *,
    master: str = _ANY_MASTER,
    memory: str | None = None,
    name: str = "fogline",
    settings: Mapping[str, Any] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """A quiet session with the settings a streaming skyline likes; `settings` are Spark's own and have the last word.

    `memory` is the driver's, such as "4g": with a local master everything lives in it. A session that already runs is
    taken as it is, with the settings that can still be made; a warning names those that cannot. What a new JVM writes
    to stderr goes to `log`, if there is one, instead of this process's stderr.
    """
    _gigabytes(memory)
    ran = SparkContext._gateway is not None
    chosen = tuned(master, memory=memory, settings=settings)
    if SparkContext._active_spark_context is not None:  # too late for the rest
        chosen = {key: value for key, value in chosen.items() if key.startswith("spark.sql.")}
    with _ready(master), nullcontext() if ran else stderr_to(log):
        builder = SparkSession.builder.appName(name)
        for key, value in chosen.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    if PARTITIONS not in chosen:
        spark.conf.set(PARTITIONS, str(_cores(spark)))
    if ran:
        for text in _kept(spark, master, memory):
            warnings.warn(text, SparkAdvice, stacklevel=2)
    return spark


@contextmanager
def for_a_while(
    *, master: str = _ANY_MASTER, memory: str | None = None, settings: Mapping[str, Any] | None = None
) -> Iterator[SparkSession]:
    """A session for one command: stopped at the end, unless it ran before. What Spark logs is kept only if it fails."""
    ran = SparkSession.getActiveSession() is not None
    log = Path(mkdtemp(prefix="fogline-")) / "spark.log"
    try:
        spark = session(master=master, memory=memory, settings=settings, log=log)
        try:
            yield spark
        finally:
            if not ran:
                spark.stop()
    except BaseException as error:
        if str(error).startswith(SPARK_REPORTS):
            error.add_note(f"What Spark logged is in {log}")
        else:
            shutil.rmtree(log.parent, ignore_errors=True)
        raise
    shutil.rmtree(log.parent, ignore_errors=True)


def tuned(
    master: str = _ANY_MASTER, *, memory: str | None = None, settings: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """What `session` sets, but the number of shuffle partitions: that is the number of cores Spark then reports."""
    chosen = {
        "spark.master": master,
        PROVIDER: ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",  # versions of state on disk, instead of 100
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": "fogline.spark.daemon",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if _is_local(master):
        chosen |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        chosen |= {FILES: PLAIN_FILES}  # elsewhere checkpoints may lie where a rename is not atomic: Spark knows better
    if memory is not None:
        chosen["spark.driver.memory"] = memory
    chosen |= {key: _text(value) for key, value in (settings or {}).items()}
    if "log4j2.configurationFile" not in chosen.get(_JAVA_OPTIONS, ""):
        log = Path(__file__).with_name("log4j2.properties").as_uri()
        chosen[_JAVA_OPTIONS] = f"{chosen.get(_JAVA_OPTIONS, '')} -Dlog4j2.configurationFile={log}".strip()
    return chosen


def advise(spark: SparkSession) -> list[str]:
    """What in this session will hurt a streaming skyline, and what to set: one sentence or two each, or none at all."""
    advice = []
    partitions, cores = int(_setting(spark, PARTITIONS, "200")), _cores(spark)
    if partitions > 2 * cores:
        advice.append(
            f"{PARTITIONS} is {partitions} on {cores} cores, and every micro-batch opens {partitions} state stores. "
            f'Before the query first starts, spark.conf.set("{PARTITIONS}", "{cores}"); its checkpoint keeps it.'
        )
    provider = _setting(spark, PROVIDER, "Spark's default")
    if "RocksDB" not in provider:
        advice.append(
            f"the state store is {provider.rpartition('.')[2]}, but a streaming skyline keeps its state in RocksDB. "
            f'Before the query starts, spark.conf.set("{PROVIDER}", "{ROCKSDB}").'
        )
    if _setting(spark, FILES, "") != PLAIN_FILES and _files_are_local(spark):
        advice.append(
            "checkpoints on local disks are slow with Spark's default file manager. "
            f'Before the query starts, spark.conf.set("{FILES}", "{PLAIN_FILES}").'
        )
    return advice


def warn_once(spark: SparkSession, *, stacklevel: int = 2) -> None:
    """Emit the advice for this session as warnings, the first time only; they point at the caller of our caller."""
    if _setting(spark, _ADVISED, "") == "":
        spark.conf.set(_ADVISED, "true")
        for text in advise(spark):
            warnings.warn(text, SparkAdvice, stacklevel=stacklevel + 1)


@contextmanager
def _ready(master: str) -> Iterator[None]:
    """The environment in which a JVM finds Java, and later the workers the Python that we are."""
    if _is_local(master) or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # a JVM is there already
        yield
        return
    before, home = os.environ.get("JAVA_HOME"), find_java()
    try:
        os.environ["JAVA_HOME"] = str(_quiet(home))
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _quiet(home: Path) -> Path:
    """The flags that this drops make every JVM print warnings, and speed up nothing that Fogline does."""
    try:
        return without_flags(home)
    except OSError:
        return home  # noisier, but it works


def _kept(spark: SparkSession, master: str, memory: str | None) -> list[str]:
    """What was asked for and cannot be had from a JVM that already runs."""
    kept = []
    if (there := spark.sparkContext.master) != master != _ANY_MASTER:
        kept.append(f"a session already runs on {there}, and stays there. Stop it before asking for {master!r}.")
    asked, got = _gigabytes(memory), spark._jvm.java.lang.Runtime.getRuntime().maxMemory() / 2**30
    if asked is not None and abs(asked - got) > 0.1 * asked:  # some collectors keep a part for themselves
        kept.append(
            f"the JVM of this process already runs with {got:.1f} GB of memory, and keeps it. "
            f"Ask for memory={memory!r} in the first session of a new process."
        )
    return kept


def _gigabytes(memory: str | None) -> float | None:
    if memory is None:
        return None
    given = re.fullmatch(r"(\d+)([kmgt])b?", str(memory).lower())
    if given is None or int(given[1]) == 0:
        raise FoglineError(f"memory is {memory!r}; write a whole number with its unit, such as '4g' or '512m'.")
    return int(given[1]) * 1024.0 ** ("kmgt".index(given[2]) - 2)


def _is_local(master: str) -> bool:
    return re.match(r"local(\[|$)", master) is not None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _setting(spark: SparkSession, key: str, otherwise: str) -> str:
    try:
        return str(spark.conf.get(key))  # with Spark's default, which a default of ours would hide
    except PySparkException:
        return otherwise


def _cores(spark: SparkSession) -> int:
    """How many tasks run at once; before the executors of a cluster have come, how many were asked for."""
    asked = int(_setting(spark, "spark.executor.instances", "0")) * int(_setting(spark, "spark.executor.cores", "1"))
    return max(int(spark.sparkContext.defaultParallelism), asked, 1)


def _files_are_local(spark: SparkSession) -> bool:
    system = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS") or ""
    return str(system).startswith("file:") and _is_local(spark.sparkContext.master)
