"""Does a stream that is stopped leave no tracebacks and no half lines on stderr?"""

from __future__ import annotations

import re

from fogline.spark.stderr import Lines
from tests.spark.test_session import run

STREAM = """
import sys, time
import fogline as fl
from fogline.spark.session import session
from fogline.spark.synthetic import register
spark = session(master="local[2]")
register(spark)
query = fl.Query(attributes={"a0": "max", "a1": "max"}, id="id", time="time", last=500)
for wait in (0, 0.2, 0.35):
    rows = spark.readStream.format("fogline").option("d", 2).option("missing", 0).option("batch", 2000).load()
    folder = f"{sys.argv[1]}/{wait}"
    sink = fl.spark.watch(rows, query).writeStream.format("noop").option("checkpointLocation", folder).start()
    while len(sink.recentProgress) < 2:
        time.sleep(0.05)
    time.sleep(wait)
    sink.stop()  # in the middle of a batch: tasks are interrupted, sockets closed
print(spark.range(10**6, numPartitions=4).mapInArrow(lambda batches: batches, "id long").limit(3).count())
spark.stop()
"""


def test_a_stream_that_is_stopped_leaves_no_tracebacks_on_stderr(tmp_path, java_or_skip):
    done = run(STREAM, str(tmp_path))
    logged = re.compile(r"\d\d:\d\d:\d\d (ERROR|WARN) .*")  # what Spark has to log about a batch that was stopped
    assert [line for line in done.stderr.splitlines() if not logged.fullmatch(line)] == []
    assert done.stdout.split() == ["3"]


def test_what_the_jvm_logs_still_arrives(java_or_skip):
    script = (
        "from fogline.spark.session import session\n"
        "spark = session(master='local[1]')\n"
        "spark._jvm.java.lang.System.err.println('a log message')\n"
    )
    assert run(script).stderr == "a log message\n"


GOODBYE = b"""Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
"""


def test_only_tracebacks_of_helpers_about_closed_sockets_are_left_out():
    other = GOODBYE.replace(b'pyspark.zip/pyspark/daemon.py", line 95', b'mine.py", line 95')
    failed = GOODBYE.replace(b"BrokenPipeError: [Errno 32] Broken pipe", b"ValueError: wrong")
    assert Lines().add(b"a\n" + GOODBYE + b"b\n") == b"a\nb\n"
    within = GOODBYE.replace(
        b"BrokenPipe", b'  File "/usr/lib/python3/socket.py", line 723, in write\n    x\n    ^\nBrokenPipe', 1
    )
    assert Lines().add(b"a\n" + within + b"b\n") == b"a\nb\n"
    source = b'  File "/x/pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 299, in main\n'
    runner = GOODBYE.replace(b'  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager\n', source)
    runner = runner.replace(
        b'  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker\n', b'  File "<frozen runpy>", line 8\n'
    )
    assert Lines().add(b"a\n" + runner + b"b\n") == b"a\nb\n"
    chain = b"\nDuring handling of the above exception, another exception occurred:\n\n"
    assert Lines().add(b"a\n" + within + chain + within + b"\nb\n") == b"a\nb\n"
    assert Lines().add(within + chain + failed + b"b\n") == failed + b"b\n"
    for shown in (other, failed):
        assert Lines().add(b"a\n" + shown + b"b\n") == b"a\n" + shown + b"b\n"


def test_lines_are_whole_however_the_text_is_cut():
    text = b"one\n\nStreaming TransformWithStateInPandas Python worker received parameters.\n\ntwo\n\nhalf a li"
    for size in range(1, len(text)):
        lines = Lines()
        shown = b"".join(lines.add(text[k : k + size]) for k in range(0, len(text), size))
        assert shown == b"one\n\ntwo\n\n"
