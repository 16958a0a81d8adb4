"""What did Spark mean? Its errors become Fogline's own, one sentence each.

A job that fails in a Python worker comes back as a Java stack with Fogline's sentence somewhere in it; a file that
cannot be read comes back as an error class in capitals. Of what is not known by name, the deepest cause is shown.

One error Fogline provokes itself: a checkpoint of another plan must be refused before any row is read. State of another
plan refuses itself (`state.format`), but only where its key is met again; with other columns in `by` there are other
keys, and the old state would lie unread. Spark compares the types of a checkpoint's state variables before the first
batch. So there is a variable that never has a value, whose type stands for the plan: one field for each part of its
description, named by it, with a decimal type whose scale is a digit of the plan's digest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import DecimalType, StructField, StructType

from fogline import errors
from fogline.errors import FoglineError, SnapshotError
from fogline.pipeline.plans import Plans
from fogline.state.format import MAGIC, WAY_OUT

NAME = "fogline_plan"

_REFUSED = re.compile(
    r"Existing value_schema=(StructType\(.*?\)) and new value_schema=(StructType\(.*?\))\.\n", re.DOTALL
)
_OTHER_KEYS = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"  # keys of other types: up to 0.1 they were groups
_FIELD = re.compile(r"StructField\((\w+),DecimalType")


def identity_of(plan: Plans) -> tuple[str, StructType]:
    """The name and the type of the variable that stands for the plan."""
    begun = plan.begun  # a checkpoint keeps the types of its first run for life
    described = {"version": str(MAGIC[-1]), **begun.described}
    digits = blake2b(begun.digest, digest_size=64).digest()
    words = dict.fromkeys(_word(f"{name} {text}") for name, text in described.items())
    kinds = (DecimalType(38, digits[k % len(digits)] % 39) for k in range(len(words)))
    return NAME, StructType([StructField(*each) for each in zip(words, kinds, strict=True)])


def other_plan(text: str) -> SnapshotError | None:
    """Spark's refusal of another plan as an error that names what differs; None if it is about something else."""
    found = _REFUSED.search(text)
    if found is None and _OTHER_KEYS in text:
        return SnapshotError(
            f"this checkpoint was begun by another version of Fogline, or by a query with other groups. {WAY_OUT}"
        )
    if found is None:
        return None
    was, now = (_FIELD.findall(each) for each in found.groups())
    if not now:
        return None
    if not was or was[0] != now[0]:
        return SnapshotError("this checkpoint was begun by another version of Fogline; begin with a new one.")
    return SnapshotError(
        "this checkpoint was begun with another plan.\n"
        f"  it was begun with {_others(was, now)}\n  now there is {_others(now, was)}\n{WAY_OUT}"
    )


def _others(these: list[str], those: list[str]) -> str:
    return ", ".join(_plain(each) for each in these if each not in those) or "nothing else"


def _word(text: str) -> str:
    """A text as a name that Spark (and Avro, inside it) accepts: letters, digits, and what stands between them."""
    text = re.sub(r"(?<=\d)\.(?=\d)", "_point_", text)
    text = re.sub(r"[^\x00-\x7f]", lambda found: f"_u{ord(found[0]):x}_", text)
    text = re.sub("[^0-9a-zA-Z]", "_", text)
    return re.sub("_+", "_", text).strip("_")


def _plain(word: str) -> str:
    text = re.sub(r"_u([0-9a-f]+)(?=_|$)", lambda found: chr(int(found[1], 16)), word)
    return text.replace("_point_", ".").replace("_", " ")


_LOST = re.compile(r"failOnDataLoss|KAFKA_DATA_LOSS|OffsetOutOfRangeException")
_AWAY = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:TimeoutException|DisconnectException)|"
    r"Timeout(?:Exception)?[^\n]*(?:fetching|expired before the position|node assignment|topic metadata)"
)


def of_topic(text: str) -> FoglineError | None:
    """The error behind Spark's words, if it is about a topic that a run reads.

    >>> of_topic("… org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment …")
    FoglineError('no broker of the topic answers any more. Start the same command again when it is back: it goes on.')
    """
    if _LOST.search(text):
        return FoglineError(
            "the topic has lost messages before they were read: its retention is too short for this run, or it was "
            "deleted. Start the same command again: it states which are lost, and --accept-loss goes on without them."
        )
    if _AWAY.search(text):
        return FoglineError(
            "no broker of the topic answers any more. Start the same command again when it is back: it goes on."
        )
    return None


SPARK_REPORTS = "Spark reports"
GO_ON = "run the same command again: it goes on from there"
OTHER_PYTHON = re.compile(
    r"PYTHON_VERSION_MISMATCH\] Python in worker has different version: \(?'?(3[.,] ?\d+)"
    r"(?:.*?driver:? \(?'?(3[.,] ?\d+))?"
)
NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")

_END = r"(?=\n\s*(?:at |\n|SQLSTATE|===)|\s*SQLSTATE|\Z)"  # where a message ends in Spark's text
_OURS = re.compile(r"^fogline\.errors\.(\w+): (.*?)" + _END, re.MULTILINE | re.DOTALL)
_BROKEN = re.compile(r"(?:error while reading|read footer for) file:? (\S+?)\.?(?=\s|$)")
_WHERE = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\S+)\)")
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+[^\n]*\n)*(\S.*?)" + _END, re.DOTALL)
_CAUSED = re.compile(r"^Caused by: ([\w.$]+)(?:: (.*))?$", re.MULTILINE)
_PREFIXES = (
    r"Query \S* ?\[id = .*?\] terminated with exception: ",
    r"An error occurred while calling \S+\s*: ",
    r"Job aborted due to stage failure: .*?\(\S+ executor \S+\): ",
    r"org\.apache\.spark\.[\w.$]+: ",
    r"(?:java|javax|org|scala)\.[\w.$]*?(?=[A-Z]\w*(?:Exception|Error)\b)",
    r"\[[A-Z0-9_.]+\]\s*",
)


def _lost_state(found: re.Match[str]) -> str:
    return (
        f"the checkpoint lacks state that was written: {_shown(found[1])} is not there. Was it begun in a folder that "
        "not all machines share, or was a part of it removed? Put it back, or begin with a new output in a folder that "
        "driver and workers share."
    )


def _refused_python(found: re.Match[str]) -> str:
    return (
        f"a worker runs Python {found[1]}, and this driver {found[2] or 'another'}: set PYSPARK_PYTHON (or --conf "
        "spark.pyspark.python=…) to a Python of the same version on every machine."
    )


_KNOWN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (OTHER_PYTHON, _refused_python),
    (
        re.compile(r'Cannot run program "([^"]+)": error=2'),
        lambda found: (
            f"there is no program {found[1]!r} where Spark runs it: PYSPARK_PYTHON (or --conf spark.pyspark.python=…) "
            "must name a Python that is there on every machine, and beside the driver, which plans queries with it."
        ),
    ),
    (
        NO_MODULE,
        lambda found: (
            f"a worker's Python has no package {found[1].partition('.')[0]!r}: install it there, or set PYSPARK_PYTHON "
            "(or --conf spark.pyspark.python=…) to a Python that has it."
        ),
    ),
    (
        re.compile(
            r"CANNOT_READ_(?:STREAMING_STATE_FILE|\w+)\S* .*?[Ee]rror reading streaming state file (?:of )?(\S+)"
        ),
        _lost_state,
    ),
    (re.compile(r"CANNOT_READ_STREAMING_STATE_FILE.*?(\S*/state/\S*)", re.DOTALL), _lost_state),
    (
        re.compile(r"Provided (?:key|value) schema does not match existing state|STATE_STORE_\w*SCHEMA_NOT_COMPATIBLE"),
        lambda found: (
            "the checkpoint was begun by another version of Fogline, whose states this one does not read: go on with "
            "that version, or begin with a new checkpoint (and a new output)."
        ),
    ),
    (
        re.compile(r"java\.lang\.OutOfMemoryError(?:: (.*))?"),
        lambda found: (
            "Spark has run out of memory: give the driver more with --memory, the executors of a cluster with --conf "
            f"spark.executor.memory=…, or take less at once with --max-rows-per-batch; then {GO_ON}."
        ),
    ),
    (
        re.compile(r"Python worker (?:exited unexpectedly|failed to connect back)"),
        lambda found: (
            "a Python worker ended at once, as when the machine's memory has run out: see its log (dmesg), give it "
            f"more, or take less at once with --max-rows-per-batch; then {GO_ON}."
        ),
    ),
    (
        re.compile(r"ExecutorLostFailure \(executor (\S+) .*?\) Reason: (.*)"),
        lambda found: (
            f"executor {found[1]} was lost again and again ({found[2].strip().rstrip('.')}): see its log, and whether "
            f"its machine has memory for it; then {GO_ON}."
        ),
    ),
)


@contextmanager
def plainly() -> Iterator[None]:
    """Raise what Spark raises as a FoglineError that a person can read."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise translated(str(error)) from error
    except (Py4JError, ConnectionError) as error:
        raise ended() from error


def ended() -> FoglineError:
    """Spark's own process is gone."""
    return FoglineError(
        "Spark's JVM has ended: it was killed, or the machine's memory ran out. Give it less to do at once "
        f"(--max-rows-per-batch) or more memory (--memory), then {GO_ON}."
    )


def translated(text: str) -> FoglineError:
    """The error behind Spark's words.

    >>> translated("An exception was thrown …\\nfogline.errors.RowsError: no rows here\\n\\n\\tat org.apache…")
    RowsError('no rows here')
    >>> translated("[X] An exception: Traceback (most recent call last):\\n  File\\nValueError: no\\n SQLSTATE: 38000")
    FoglineError('Spark reports: ValueError: no')
    """
    if (refused := other_plan(text)) is not None:
        return refused
    found = _OURS.search(text)
    if found is not None:
        kind = getattr(errors, found[1], FoglineError)
        return kind(found[2].strip()) if issubclass(kind, FoglineError) else FoglineError(found[2].strip())
    if (lost := of_topic(text)) is not None:
        return lost
    for pattern, sentence in _KNOWN:
        if (known := pattern.search(text)) is not None:
            machine = where_of(text)
            return FoglineError(f"{'' if machine is None else f'{machine}: '}{sentence(known)}")
    if (broken := _BROKEN.search(text)) is not None:
        return FoglineError(
            f"{_shown(broken[1])} cannot be read: it is damaged, not whole yet, gone, or has columns of other types. "
            f"Put a good file in its place or take it away, then {GO_ON}."
        )
    return FoglineError(f"{SPARK_REPORTS}: {cause_of(text)}")


def cause_of(text: str) -> str:
    """The deepest cause in Spark's words: what Python raised, else the last that Java was caused by, else its message.

    >>> cause_of("[A_B] It failed.\\n\\tat x\\nCaused by: a.B: outer\\nCaused by: java.io.IOException: disk")
    'IOException: disk'
    """
    if (raised := _RAISED.match(text, max(text.rfind(_TRACEBACK), 0))) is not None:
        return _clean(raised[1])
    for kind, message in reversed(_CAUSED.findall(text)):
        if message.strip():
            return _clean(f"{kind}: {message}")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    if len(lines) > 1 and lines[1].startswith(": "):  # py4j puts the message below
        lines[:2] = ["".join(lines[:2])]
    return _clean(lines[0]) if lines else "nothing"


def where_of(text: str) -> str | None:
    """The machine of the task that failed; None: it is not named, or is this one."""
    found = _WHERE.findall(text)
    return None if not found or found[-1][1] == "driver" else f"{found[-1][0]} (executor {found[-1][1]})"


def _clean(message: str) -> str:
    """A message without the words around it."""
    message, before = re.sub(r"\s*SQLSTATE: .*$", "", message.strip(), flags=re.DOTALL), ""
    while message != before:
        before = message
        for prefix in _PREFIXES:
            message = re.sub(f"^{prefix}", "", message)
    return message


def not_started(error: Exception, master: str, log: Path | None) -> FoglineError:
    """Why no session came to be, from what the JVM has logged."""
    logged = log.read_text(encoding="utf-8", errors="replace") if log is not None and log.exists() else ""
    if missing := re.findall(r"unresolved dependency: ([\w.-]+)#([\w.-]+);([\w.+-]+): not found", logged):
        names = ", ".join(":".join(each) for each in dict.fromkeys(missing))
        return FoglineError(
            f"Spark cannot find the package {names}: neither on this machine (Maven, Ivy) nor in the network. "
            "Check its name, its version and the network; --conf spark.jars.repositories=URL adds a place to "
            "look, --jars takes files."
        )
    if "All masters are unresponsive" in logged or "on a stopped SparkContext" in str(error):
        return FoglineError(
            f"no Spark master answers at {master}. Is it running, and can this machine reach it under that name?"
        )
    if "JAVA_GATEWAY_EXITED" not in str(error):
        return translated(str(error))
    if shown := re.search(r"^(?:Error: |Invalid |Unrecognized |Improperly |Exception in thread)[^\n]*", logged, re.M):
        why = cause_of(logged) if "Exception in thread" in shown[0] else shown[0]
        return FoglineError(f"{SPARK_REPORTS}: Java did not start. {why.removeprefix('Error: ')}")
    return FoglineError(f"{SPARK_REPORTS}: Java ended before Spark had started. What it wrote is above, or in its log.")


def _shown(address: str) -> str:
    """A file's address as a person writes it."""
    return repr(unquote(re.sub(r"^file:(//)?(?=/)", "", address)))
