"""What are the files and folders of an output called?"""

from __future__ import annotations

import pyarrow as pa

from fogline.query import RANGE, Query
from fogline.rows.names import Kinds

ABOUT = "about.json"
CHECKPOINT = "checkpoint"
MARK = f"{CHECKPOINT}/fogline.json"
LOCK = ".lock"  # held by the process that writes there (`fogline.runs.lock`)
REPOSITORIES = "repositories"  # in about.json: those that the run has had, the last one it has
ANSWERS = "answers"
CURRENT = "answer/current.parquet"  # the answer now, for any tool that reads Parquet
ALARMS = "alarms.json"  # groups that are near a limit
CHANGES, REJECTS, HEALTH = KINDS = ("changes", "rejects", "health")
SCORES = "scores"  # a column of health: of values that were hidden for a moment, as JSON (`fogline.impute.scores`)
NEAR, NEXT = VIEWS = ("near", "next")  # folders of a run with --explain: what the page and `fogline next` show
HERE = "its own folder"  # among the sinks that a run was begun with


# --- Near rows, and cells to measure next -----------------------------------------------------------------------------
#
# Which columns have near rows and cells to measure next?
#
# `near/`: the possible rows of a group at the end of a batch, each attribute as it came (null: a gap) with the range
# that it may have, and why the row is in or out. `next/`: the missing cells whose values would be expected to change
# the answer most. A group of which there is nothing to show has one row without an id: it stands for what was there
# before.

WHY = "why"
_SHOWN = {
    "inside": pa.bool_(), "certainty": pa.string(), "probability": pa.float64(), "probability_error": pa.float64(),
}  # fmt: skip


def near_schema(query: Query, kinds: Kinds) -> pa.Schema:
    """Of the rows that are in the answer, or may be."""
    head = [
        *zip(query.by, kinds.by, strict=True),
        ("time", kinds.time),
        (query.id, kinds.id),
        (query.arrived, kinds.time),
    ]
    cells = [(name, pa.float64()) for attribute in query.names for name in (attribute, *ranges_of(attribute))]
    kept = ((name, kind or pa.null()) for name, kind in kinds.kept)
    return pa.schema([*head, *_SHOWN.items(), *cells, *kept, (WHY, pa.string())])


def next_schema(query: Query, kinds: Kinds) -> pa.Schema:
    """Of the cells to measure next."""
    names = "time", "rank", query.id, query.arrived, "attribute", "changes", *RANGE, "sentence"
    types = [kinds.time, pa.int64(), kinds.id, kinds.time, pa.string(), *[pa.float64()] * 4, pa.string()]
    return pa.schema([*zip(query.by, kinds.by, strict=True), *zip(names, types, strict=True)])


def ranges_of(attribute: str) -> list[str]:
    """The columns with the range of an attribute's cells."""
    return [f"{attribute}.{each}" for each in RANGE]
