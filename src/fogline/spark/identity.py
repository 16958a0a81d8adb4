"""How does Spark notice that a checkpoint belongs to another plan, before any row is read?

State of another plan refuses itself (`flow.state`), but only where its key is met again; with other columns in `by`
there are other keys, and the old state would lie unread. Spark compares the types of a checkpoint's state variables
before each first batch. So there is a variable that never has a value, whose type stands for the plan: one field for
each part of its description, named by it, with a decimal type whose scale is a digit of the plan's digest.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from pyspark.sql.types import DecimalType, StructField, StructType

from fogline.errors import SnapshotError
from fogline.flow.plans import AnyPlan
from fogline.flow.state import MAGIC, WAY_OUT

NAME = "fogline_plan"

_REFUSED = re.compile(
    r"Existing value_schema=(StructType\(.*?\)) and new value_schema=(StructType\(.*?\))\.\n", re.DOTALL
)
_OTHER_KEYS = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"  # keys of other types: up to 0.1 they were groups
_FIELD = re.compile(r"StructField\((\w+),DecimalType")


def identity_of(plan: AnyPlan) -> tuple[str, StructType]:
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
