"""How is a row that cannot be taken shown?

As it came, in JSON, with the reason: a person will read it.
"""

from __future__ import annotations

import json
import math
from typing import Any


def as_json(row: Any) -> str:
    """A row as it came, readable: what JSON has no word for is written as text.

    >>> as_json({"gas": float("nan"), "site": "north"})
    '{"gas": "nan", "site": "north"}'
    """
    return json.dumps(_plain(row), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
