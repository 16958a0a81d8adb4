"""How large may a file be that is read whole?

Queries, rules, properties and manifests are small. One that is not is something else, or was made to fill the memory:
it is refused after so many bytes, and never held as a whole. A person may name a pipe: it is read as a file is.
"""

from __future__ import annotations

from pathlib import Path

from fogline.errors import FoglineError

DOCUMENT = 2**20  # bytes of what a person writes: queries, rules, properties, a token
WRITTEN = 64 * 2**20  # bytes of what Fogline writes about what it has written


def read_small(path: str | Path, most: int = DOCUMENT) -> bytes:
    """The content of a file that has no more than so many bytes."""
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise FoglineError(
            f"{str(path)!r} has more than {most // 2**20} MB, and such a file is never so large; is it the right one?"
        )
    return content


def read_small_text(path: str | Path, most: int = DOCUMENT) -> str:
    """The same, as text."""
    return read_small(path, most).decode("utf-8")
