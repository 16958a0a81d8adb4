"""Can every worker of a cluster do its part? Looked at before the first batch, so that a run fails at once, in words.

One small task on each executor states what it sees: the same Fogline, the same Python, the repository with its
fingerprint, and in each folder that must be shared a token that the driver has written; the driver reads what each
worker has written there. Without this, Spark takes a checkpoint that is not shared, without a word, and loses it with
the first restart. A local master has nothing to look at. Executors that come later are not looked at.
"""

from __future__ import annotations

import pickle
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.core.rdd import RDD
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

import fogline
from fogline.errors import FoglineError
from fogline.files.listing import absolute, is_local
from fogline.repository.repository import Repository
from fogline.show import count_of
from fogline.spark import probe as probing
from fogline.spark.errors import NO_MODULE, OTHER_PYTHON, cause_of, where_of
from fogline.spark.hadoop import HadoopFolder
from fogline.spark.partitions import asked_executors, context_of, master_of
from fogline.spark.partitions import is_local as is_one_machine
from fogline.spark.share import is_sent

PATIENCE = 30.0  # seconds until it is remarked that no executor has come
LOOK = 0.5  # seconds between looks
BESIDE = ("numpy", "numba", "pyarrow", "pyspark")  # packages that should be the same
LOOKS, PAUSE = 10, 0.2  # for files that other machines have written
PACKING = "docs/cluster.md shows how to pack an environment for all workers"

Finding = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Executor:
    """A process of the cluster that runs tasks."""

    id: str
    host: str

    def __str__(self) -> str:
        return f"{self.host} (executor {self.id})"


def executors(spark: SparkSession) -> list[Executor]:
    """Those that are there now."""
    known = spark.sparkContext._jsc.sc().statusStore().executorList(True).iterator()
    found = []
    while known.hasNext():
        each = known.next()
        if each.id() != "driver":
            found.append(Executor(str(each.id()), str(each.hostPort()).rpartition(":")[0]))
    return sorted(found, key=lambda each: (len(each.id), each.id))


def awaited(spark: SparkSession, remark: Callable[[str], None]) -> list[Executor]:
    """The executors, once as many have come as were asked for, or no more follow for a while; at least one."""
    asked, begun, before, since = asked_executors(spark), time.monotonic(), -1, time.monotonic()
    remarked = False
    while True:
        there, now = executors(spark), time.monotonic()
        if len(there) != before:
            before, since = len(there), now
        if there and (len(there) >= asked > 0 or now - since > 4 * LOOK):
            return there
        if not there and not remarked and now - begun > PATIENCE:
            remarked = True
            remark(
                f"{master_of(spark)} has given no executor for {PATIENCE:.0f} s, and the run waits. Does it have "
                "workers with free cores, and as much free memory as spark.executor.memory asks for?"
            )
        time.sleep(LOOK)


def one_task_each(spark: SparkSession, there: list[Executor]) -> Any:
    """An RDD of their numbers, each in a task of its own that its executor prefers."""
    context = spark.sparkContext
    jvm, pairs = context._jvm, context._jvm.java.util.ArrayList()
    for number, each in enumerate(there):
        place = jvm.java.util.ArrayList()
        place.add(f"executor_{each.host}_{each.id}")
        pairs.add(jvm.scala.Tuple2(pickle.dumps(number), _seq(jvm, place)))
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
    numbers = context._jsc.sc().makeRDD(_seq(jvm, pairs), tag).toJavaRDD()
    return RDD(numbers, context, CPickleSerializer())


@contextmanager
def noting_failures(spark: SparkSession, failed: dict[Executor, str]) -> Iterator[None]:
    """Note at the end which executors failed to run a task of the jobs that are started meanwhile, and why.

    Those that were lost are left out: they are there no longer.
    """
    context, group = spark.sparkContext, uuid4().hex
    context.setLocalProperty("spark.jobGroup.id", group)
    try:
        yield
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context._jsc.sc().listenerBus().waitUntilEmpty()
        store, tracker = context._jsc.sc().statusStore(), context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        for stage in [stage for job in jobs if job is not None for stage in job.stageIds]:
            tasks = store.taskList(stage, 0, 100_000).iterator()
            while tasks.hasNext():
                task = tasks.next()
                text = task.errorMessage().get() if task.errorMessage().isDefined() else None
                if text is not None and "ExecutorLostFailure" not in text:
                    failed[Executor(str(task.executorId()), str(task.host()))] = str(text)


def _seq(jvm: Any, values: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq()


def preflight(
    spark: SparkSession,
    places: Mapping[str, str],
    repository: Repository | None,
    remark: Callable[[str], None] = lambda text: None,
) -> None:
    """An error that names each machine that cannot do its part, and the way out; remarks on what may be harmless.

    `places`: folders that driver and workers share, by what they are.
    """
    if context_of(spark) is None or is_one_machine(master_of(spark)):
        return
    there = awaited(spark, remark)
    shared = {what: absolute(path) for what, path in places.items()}
    local = {what: path for what, path in shared.items() if is_local(path)}
    with _tokens(local.values()) as (token, folders):
        asked: dict[str, Any] = {"packages": ("fogline", *BESIDE), "places": folders, "token": token}
        asked["repository"] = _named(repository, spark)
        found, wrong = _asked(spark, there, asked)
        wrong += [text for each in found for text in _wrong(each, there[each["number"]], local, repository)]
        wrong += _not_read(found, there, local, folders, token)
    for what, path in shared.items():
        wrong += [] if what in local else _not_reached(spark, there, what, path)
    if wrong:
        raise FoglineError("\n".join(dict.fromkeys(wrong)))
    _remark(found, there, remark)


def _named(repository: Repository | None, spark: SparkSession) -> tuple[str, str] | None:
    """The folder and the fingerprint that workers look for; None: there is none, or it is sent to them."""
    if repository is None or is_sent(repository, spark):
        return None
    return str(repository.folder), repository.fingerprint


def _asked(spark: SparkSession, there: Sequence[Executor], asked: dict[str, Any]) -> tuple[list[Finding], list[str]]:
    """What a task on each executor has found, and sentences about those where it could not run.

    Spark tries a task that failed again, after a while on another executor: so that a job has ended well means little.
    """
    found: list[Finding] = []
    failed: dict[Executor, str] = {}
    cloudpickle.register_pickle_by_value(probing)
    try:
        with noting_failures(spark, failed):
            found = one_task_each(spark, list(there)).mapPartitions(partial(probing.probe, asked)).collect()
    except (PySparkException, Py4JError) as error:
        if not failed:
            raise FoglineError(_not_asked(str(error), where_of(str(error)) or "a worker")) from None
    finally:
        cloudpickle.unregister_pickle_by_value(probing)
    return found, [_not_asked(text, str(machine)) for machine, text in failed.items()]


def _not_asked(text: str, machine: str) -> str:
    """Why a worker could not be asked."""
    if (other := OTHER_PYTHON.search(text)) is not None:
        return _other_python(machine, other[1])
    if (module := NO_MODULE.search(text)) is not None:
        return _no_package(machine, module[1].partition(".")[0])
    return f"{machine} cannot run Python: {cause_of(text)}"


def _wrong(found: Finding, machine: Executor, places: Mapping[str, str], known: Repository | None) -> Iterator[str]:
    """Sentences about a worker that cannot do its part."""
    version = found["versions"]["fogline"]
    if found["python"] != _python():
        yield _other_python(str(machine), found["python"])
    if version is None:
        yield _no_package(str(machine), "fogline", found["executable"])
    elif version != fogline.__version__:
        yield (
            f"{machine} has Fogline {version}, and this driver {fogline.__version__}: install the same version there; "
            f"{PACKING}."
        )
    for (what, path), trouble in zip(places.items(), found["places"], strict=True):
        if trouble == "not seen":
            yield f"{machine} does not see the {what} {path!r} that this driver writes: {_SHARED}."
        elif trouble is not None:
            yield f"{machine} cannot use the {what} {path!r}, which was {trouble}: give its user the rights to."
    if known is not None and found["repository"] is not None:
        other = "; it holds another repository" if found["repository"] == "other" else ""
        yield (
            f"{machine} has no repository {known.fingerprint[:12]}… in {str(known.folder)!r}, which this run is "
            f"given{other}: copy the folder to the same path there, or put it where all machines reach it (hdfs://…, "
            "s3a://…) and name that path: it is then fetched once by each machine."
        )


_SHARED = (
    "it must lie in a folder that all machines share under one path, or in a file system such as hdfs:// or s3a://"
)


def _python() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def _other_python(machine: str, version: str) -> str:
    return (
        f"{machine} runs Python {version}, and this driver {_python()}: set PYSPARK_PYTHON (or --conf "
        f"spark.pyspark.python=…) to a Python {_python()} with Fogline that lies there; {PACKING}."
    )


def _no_package(machine: str, name: str, python: str | None = None) -> str:
    which = "its Python" if python is None else f"its Python, {python}"
    return (
        f"{machine} has no package {name!r}: {which}, cannot import it. Install fogline[spark] {fogline.__version__} "
        f"there, or set PYSPARK_PYTHON (or --conf spark.pyspark.python=…) to a Python that has it; {PACKING}."
    )


@contextmanager
def _tokens(places: Any) -> Iterator[tuple[str, list[str]]]:
    """A token, and a folder with it in each place; they go in the end."""
    token = uuid4().hex
    folders = [Path(place, f".fogline-{token[:12]}") for place in places]
    try:
        for folder in folders:
            folder.mkdir(parents=True)
            (folder / "driver").write_text(token)
        yield token, [str(folder) for folder in folders]
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _not_read(
    found: Sequence[Finding], there: Sequence[Executor], places: Mapping[str, str], folders: Sequence[str], token: str
) -> Iterator[str]:
    """Sentences about workers whose files the driver does not see."""
    for each in found:
        for (what, path), folder, trouble in zip(places.items(), folders, each["places"], strict=True):
            if trouble is None and not _read(Path(folder, str(each["number"])), token):
                yield _unseen(there[each["number"]], what, path)


def _unseen(machine: Executor, what: str, path: str) -> str:
    return f"what {machine} writes into the {what} {path!r}, this driver does not see: {_SHARED}."


def _read(path: Path, token: str) -> bool:
    """Whether the file is there; other machines' files may take a moment."""
    for _ in range(LOOKS):
        if path.exists() and path.read_text() == token:
            return True
        time.sleep(PAUSE)
    return False


def _not_reached(spark: SparkSession, there: Sequence[Executor], what: str, path: str) -> list[str]:
    """Sentences about executors whose files, in another file system, the driver does not see."""
    place, name = HadoopFolder(spark, path), f".fogline-{uuid4().hex[:12]}"
    try:
        one_task_each(spark, list(there)).map(str).saveAsTextFile(f"{place.root}/{name}")
        written = {int(m[1]) for each in place.listing(name) if (m := re.search(r"part-(\d+)$", each))}
    except (PySparkException, Py4JError) as error:
        text = str(error)
        return [f"{where_of(text) or 'the driver'} cannot write into the {what} {path!r}: {cause_of(text)}"]
    finally:
        place.clear(name)
    missing = [each for number, each in enumerate(there) if number not in written]
    return [_unseen(each, what, path) for each in missing]


def _remark(found: Sequence[Finding], there: Sequence[Executor], remark: Callable[[str], None]) -> None:
    """What may be harmless: other versions of packages; executors that were not reached."""
    for name in BESIDE:
        here = metadata.version(name)
        others = [(there[each["number"]], each["versions"][name]) for each in found if each["versions"][name] != here]
        if others:
            machine, version = others[0]
            more = f" and {count_of(len(others) - 1, 'other')}" if len(others) > 1 else ""
            remark(
                f"{machine}{more} has {name} {version}, this driver {here}. Install the same version on all "
                "machines to be safe."
            )
    if (reached := len({each["daemon"] for each in found})) < len(there):
        remark(f"{len(there) - reached} of {count_of(len(there), 'executor')} had no free core to be checked on.")
