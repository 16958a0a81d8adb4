"""How is a row that cannot be taken shown?

As it came, in JSON, with the reason: a person will read it. With the file and the line, where rows come from files and
are refused as they are read; of rows that are refused later, as copies or because they run ahead, these are not known.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from fogline.files.blocks import CORRUPT, FILE, LINE, ORIGIN
from fogline.query import NO_REPOSITORY

LONGEST = 10_000  # characters of one text; a person will not read more
MOST = 0.5  # of the rows: if more are rejected, something is wrong with all of them
HELD = "held: "  # how the reasons begin of rows that may yet enter
REPOSITORY = "Make one from past rows with `fogline fit`, then add --repository FOLDER (in Python repository=)."


class RejectedRow(NamedTuple):
    """A row that cannot be taken."""

    row: str  # as JSON
    reason: str
    file: str | None = None
    line: int | None = None


def rejected(row: Mapping[str, Any], reason: str) -> RejectedRow:
    """A row as it came, columns of `files.blocks` included. Of a line that cannot be read its text is shown.

    >>> rejected({"gas": None, "_corrupt_record": "1,2", "_fogline_file": "a.csv", "_fogline_line": 3}, "too short")
    RejectedRow(row='{"_corrupt_record": "1,2"}', reason='too short', file='a.csv', line=3)
    """
    file, line = row.get(FILE), row.get(LINE)
    if row.get(CORRUPT):
        return RejectedRow(as_json({CORRUPT: row[CORRUPT]}), reason, file, line)
    if row.get(CORRUPT) == "":
        return RejectedRow(as_json({"file": file}), reason, file, line)
    return RejectedRow(as_json({name: row[name] for name in row if name not in ORIGIN.names}), reason, file, line)


def where(found: RejectedRow) -> str:
    """A row as JSON, behind the file and the line that it comes from, where these are known."""
    line = "" if found.line is None else f", line {found.line}"
    return found.row if found.file is None else f"{found.file}{line}: {found.row}"


def kind_of_reason(reason: str) -> str:
    """The reason without the value that it quotes.

    >>> kind_of_reason("'gas' is 'n/a', which is not a number")
    "'gas' is …, which is not a number"
    """
    return re.sub(r"^('.*?') is (['\"]).*\2, which", r"\1 is …, which", reason)


def mostly_rejected(rows: int, rejected: int, reasons: Counter[str], verb: str = "were") -> str | None:
    """A sentence, if most of the rows were rejected, with the commonest kind of reason.

    >>> mostly_rejected(10, 9, Counter({"'gas' is …, which is not a number": 8, "the id 'sensor' is missing": 1}))
    "9 of 10 rows were rejected, 8 of them because: 'gas' is …, which is not a number."
    """
    if rejected <= MOST * rows:
        return None
    which = "all" if rejected == rows else f"{rejected:,} of"
    common = [(reason, count) for reason, count in reasons.most_common() if not reason.startswith(HELD)]
    why = f", {common[0][1]:,} of them because: {common[0][0]}" if common else ""
    way_out = f" {REPOSITORY}" if common and common[0][0].endswith(NO_REPOSITORY) else ""
    return f"{which} {rows:,} rows {verb} rejected{why}.{way_out}"


def rejected_for_gaps(reasons: Counter[str]) -> str | None:
    """A sentence, if rows with gaps were rejected since there is no repository.

    >>> str(rejected_for_gaps(Counter({f"'gas' is missing, {NO_REPOSITORY}": 8})))[:68]
    'Rows with missing values are rejected, since there is no repository '
    """
    reason = next((reason for reason in reasons if reason.endswith(NO_REPOSITORY)), None)
    return (
        None
        if reason is None
        else f"Rows with missing values are rejected, since there is no repository to fill them. {REPOSITORY}"
    )


def as_json(row: Any) -> str:
    """A row as it came, readable: what JSON has no word for is written as text.

    >>> as_json({"gas": float("nan"), "site": "north"})
    '{"gas": "nan", "site": "north"}'
    """
    return json.dumps(_plain(row), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _text(value.hex() if isinstance(value, bytes) else value)


def _text(value: Any) -> str:
    """Any value as a text that can be written, and read: no lone surrogates, no megabytes."""
    text = str(value)
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
    return cut.encode("utf-8", "backslashreplace").decode()
