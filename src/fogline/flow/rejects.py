"""How is a row that cannot be taken shown?

As it came, in JSON, with the reason: a person will read it.
"""

from __future__ import annotations

import json
import math
from typing import Any

LONGEST = 10_000  # characters of one text; a person will not read more


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
