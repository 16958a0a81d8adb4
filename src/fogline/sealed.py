"""Is a JSON document that was written here still what was written?

It has a checksum of all else that is in it, under a name of its own. One flipped byte of a number would otherwise still
be a number, and another answer. What was written before there were checksums has none, and is read as it is.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

CHECKSUM = "checksum"
_HEX = re.compile("[0-9a-f]{8}")


def sealed(values: Mapping[str, Any]) -> str:
    """The values as JSON, with their checksum.

    >>> opened(sealed({"a": 1})), opened(sealed({"a": 1}).replace("1", "2", 1))
    ({'a': 1}, None)
    """
    plain = {name: value for name, value in values.items() if name != CHECKSUM}
    return json.dumps({**plain, CHECKSUM: _checksum(plain)}, indent=1)


def opened(text: str | bytes) -> dict[str, Any] | None:
    """The values of a JSON object, without their checksum; None: it is none, or not what was written."""
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            return None
        last = found.get(next(reversed(found), ""))
        if CHECKSUM not in found and isinstance(last, str) and _HEX.fullmatch(last):  # its name is damaged
            return None
        expected = found.pop(CHECKSUM, None)
        return found if expected is None or expected == _checksum(found) else None
    except (ValueError, RecursionError):
        return None


def _checksum(values: Mapping[str, Any]) -> str:
    plain = json.dumps(json.loads(json.dumps(values)), sort_keys=True)  # as it will be read
    return f"{zlib.crc32(plain.encode()):08x}"
