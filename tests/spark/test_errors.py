"""Is the deepest cause of what Spark reports shown, in one sentence?"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from importlib import import_module

import pytest

from fogline.errors import FoglineError, RowsError, SnapshotError
from fogline.spark.errors import cause_of, not_started, plainly, translated, where_of

LOST = "Lost task 0.3 in stage 1.0 (TID 9) (10.0.0.4 executor 3): "
ABORTED = f"Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: {LOST}"


def raises(what):
    def work(batches):
        for _ in batches:
            what()
        return iter(())

    return work


def fail(what):
    raise what


def import_it():
    import_module("no_such_module")


def job(spark, what):
    return spark.range(0, 2, 1, 1).mapInArrow(raises(what), "id long").count()


@pytest.mark.parametrize(
    ("what", "kind", "sentence"),
    [
        (
            lambda: fail(ValueError("a value\nof two lines")),
            FoglineError,
            r"Spark reports: ValueError: a value\nof two",
        ),
        (lambda: fail(RowsError("our own sentence.")), RowsError, r"our own sentence\."),
        (
            import_it,
            FoglineError,
            r"a worker's Python has no package 'no_such_module': install it there, or set PYSPARK",
        ),
    ],
    ids=["any", "ours", "import"],
)
def test_what_a_worker_raises_is_shown_and_not_its_traceback(spark, what, kind, sentence):
    with pytest.raises(kind, match=f"^{sentence}") as caught, plainly():
        job(spark, what)
    assert "Traceback" not in str(caught.value)


def test_a_worker_that_is_killed_is_named_as_such(spark):
    with pytest.raises(FoglineError, match=r"^a Python worker ended at once, as when the machine's memory"), plainly():
        job(spark, lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_a_worker_that_does_not_come_up_is_named_as_one_that_ended():
    shown = str(translated("[STREAM_FAILED] terminated with exception: Python worker failed to connect back."))
    assert shown.startswith("a Python worker ended at once")
    assert "run the same command again" in shown


def test_a_file_that_is_gone_is_named(spark, tmp_path):
    spark.range(3).write.parquet(f"{tmp_path}/rows")
    rows = spark.read.parquet(f"{tmp_path}/rows")
    shutil.rmtree(tmp_path / "rows")
    with pytest.raises(FoglineError, match=rf"^'{tmp_path}/rows/part-\S+' cannot be read: it is damaged"), plainly():
        rows.count()
    with pytest.raises(FoglineError, match=r"^Spark reports: Path does not exist: file:/no/such\.$"), plainly():
        spark.read.parquet("/no/such")


def test_a_function_of_the_driver_that_fails_in_a_stream_is_shown_by_its_cause(spark, tmp_path):
    def write(batch, number):
        batch.mapInArrow(raises(lambda: fail(ValueError("deep down"))), "id long").count()

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1\n")
    stream = spark.readStream.text(f"{tmp_path}/in").selectExpr("cast(value as long) id")
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", f"{tmp_path}/c").start()
    with pytest.raises(FoglineError, match=r"^Spark reports: ValueError: deep down$"), plainly():
        query.awaitTermination()


def test_of_causes_in_java_the_last_with_words_counts_and_the_machine_is_named():
    text = (
        f"An error occurred while calling o1.count.\n: org.apache.spark.SparkException: {ABORTED}java.lang.X: x\n"
        "\tat a.b(C.scala:1)\nCaused by: java.io.IOException: No space left on device\n\tat d\n"
        "Caused by: java.io.EOFException\n\t... 23 more\n"
    )
    assert cause_of(text) == "IOException: No space left on device"
    assert where_of(text) == "10.0.0.4 (executor 3)"
    assert where_of(text.replace("executor 3", "executor driver")) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] An error occurred during loading state. Error "
            "reading streaming state file file:/out/checkpoint/state/0/1/2.zip does not exist. If the stream job is",
            r"the checkpoint lacks state that was written: '/out/checkpoint/state/0/1/2.zip' is not there. Was it",
        ),
        (
            f"{ABORTED}ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: Command "
            "exited with code 137\nDriver stacktrace:",
            r"10.0.0.4 \(executor 3\): executor 3 was lost again and again \(Command exited with code 137\): see its",
        ),
        (
            '[STREAM_FAILED] Query [id = 1] terminated with exception: Cannot run program "./environment/bin/python": '
            "error=2, No such file or directory SQLSTATE: XXKST",
            r"there is no program './environment/bin/python' where Spark runs it: PYSPARK_PYTHON .* beside the driver",
        ),
        (
            f"{ABORTED}java.lang.OutOfMemoryError: Java heap space\n\tat x",
            r".*Spark has run out of memory: give the dri",
        ),
        (
            f"{ABORTED}PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 "
            "than that in driver: 3.11, PySpark cannot run with different minor versions.",
            r"10.0.0.4 \(executor 3\): a worker runs Python 3.12, and this driver 3.11: set PYSPARK_PYTHON",
        ),
    ],
    ids=["state", "executor", "program", "memory", "python"],
)
def test_what_is_known_has_a_way_out(text, sentence):
    assert re.match(sentence, str(translated(text)))


def test_a_jvm_that_has_ended_is_one_sentence(java_or_skip):
    code = """
import os
from fogline.spark.session import BRISK_JVM, session
from fogline.spark.errors import plainly
spark = session(master="local[1]", settings=BRISK_JVM)
os.kill(spark._jvm.java.lang.ProcessHandle.current().pid(), 9)
try:
    with plainly():
        spark.range(3).count()
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.startswith("FoglineError Spark's JVM has ended: it was killed, or the machine's memory ran out.")


def test_what_keeps_spark_from_starting_is_named(tmp_path):
    exited = RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    log = tmp_path / "log"

    def shown(text, error=exited):
        log.write_text(text)
        return str(not_started(error, "spark://host:7077", log))

    missing = (
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: no.such#thing;1: not found]'
    )
    assert shown(missing).startswith("Spark cannot find the package no.such:thing:1: neither on this machine (Maven")
    assert shown("Invalid maximum heap size: -Xmx1x\nError: Could not create the Java Virtual Machine.").endswith(
        "Java did not start. Invalid maximum heap size: -Xmx1x"
    )
    lost = (
        'Exception in thread "main" java.lang.X: y\n\tat a\nCaused by: java.net.UnknownHostException: nowhere.invalid'
    )
    assert shown(lost).endswith("Java did not start. UnknownHostException: nowhere.invalid")
    assert shown("ERROR StandaloneSchedulerBackend: All masters are unresponsive! Giving up.") == (
        "no Spark master answers at spark://host:7077. Is it running, and can this machine reach it under that name?"
    )
    other = RuntimeError(
        "An error occurred while calling None.X.\n: a.b.C: [INVALID_EXECUTOR_MEMORY] too little. SQLSTATE: 1"
    )
    assert "too little." in shown("", other)
    assert "Java ended before Spark had started" in str(not_started(exited, "local[1]", None))


def test_a_checkpoint_whose_state_has_another_schema_is_of_another_version():
    text = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated: [STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] "
        "Provided value schema does not match existing state value schema.\nPlease check number and type of fields."
    )
    assert "was begun by another version of Fogline" in str(translated(text))


def test_a_checkpoint_of_the_version_before_whose_keys_were_groups_is_refused_in_words():
    text = (
        "[STREAM_FAILED] Query [id = ca55, runId = f7cb] terminated with exception: "
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema.\n"
        "Please check number and type of fields.\n"
        "Existing key_schema=StructType(StructField(group,StringType,true)) and "
        "new key_schema=StructType(StructField(shard,IntegerType,true)).\n"
        "If you want to force running the query without schema validation, please set "
        "spark.sql.streaming.stateStore.stateSchemaCheck to false. SQLSTATE: XXKST"
    )
    error = translated(text)
    assert isinstance(error, SnapshotError)
    assert str(error).startswith("this checkpoint was begun by another version of Fogline, or by a query with other")
    assert "begin with a new checkpoint" in str(error)
