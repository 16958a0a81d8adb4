"""What did Spark mean?

A job that fails in a Python worker comes back as a Java stack with our sentence somewhere in it; a file that cannot be
read comes back as an error class in capitals. Here they become Fogline's own errors again, one sentence each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from pyspark.errors import PySparkException

from fogline import errors
from fogline.errors import FoglineError
from fogline.spark.identity import other_plan
from fogline.spark.topic_errors import of_topic

SPARK_REPORTS = "Spark reports"
_OURS = re.compile(
    r"^fogline\.errors\.(\w+): (.*?)(?=\n\s*(?:at |\n|SQLSTATE)|\s*SQLSTATE|\Z)", re.MULTILINE | re.DOTALL
)


_BROKEN = re.compile(r"(?:error while reading|read footer for) file:? (\S+?)\.?(?=\s|$)")


@contextmanager
def plainly() -> Iterator[None]:
    """Raise what Spark raises as a FoglineError that a person can read."""
    try:
        yield
    except PySparkException as error:
        raise translated(str(error)) from error


def translated(text: str) -> FoglineError:
    """The error behind Spark's words.

    >>> translated("An exception was thrown …\\nfogline.errors.RowsError: no rows here\\n\\n\\tat org.apache…")
    RowsError('no rows here')
    """
    if (refused := other_plan(text)) is not None:
        return refused
    found = _OURS.search(text)
    if found is not None:
        kind = getattr(errors, found[1], FoglineError)
        return kind(found[2].strip()) if issubclass(kind, FoglineError) else FoglineError(found[2].strip())
    if (lost := of_topic(text)) is not None:
        return lost
    if (broken := _BROKEN.search(text)) is not None:
        return FoglineError(
            f"{_shown(broken[1])} cannot be read: it is damaged, not whole yet, gone, or has columns of other types. "
            "Put a good file in its place or take it away, then run the same command again: it goes on from there."
        )
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    message = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", lines[0].strip()) if lines else "nothing"
    message = re.sub(r"^Query \S* ?\[id = .*?\] terminated with exception: ", "", message)
    return FoglineError(f"{SPARK_REPORTS}: {re.sub(r' SQLSTATE: .*$', '', message)}")


def _shown(address: str) -> str:
    """A file's address as a person writes it."""
    return repr(unquote(re.sub(r"^file:(//)?(?=/)", "", address)))
