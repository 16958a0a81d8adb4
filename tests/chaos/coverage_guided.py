"""The readers of texts, under a fuzzer that follows the branches they take (`make fuzz`; needs atheris).

    python -m tests.chaos.coverage_guided [-runs=100000] [-max_total_time=600]

Its first byte chooses the reader, the rest is what it reads. Anything but a FoglineError ends it, with a file that
holds the bytes; `python -m tests.chaos.coverage_guided FILE` repeats them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import atheris

with atheris.instrument_imports(include=["fogline.documents", "fogline.query", "fogline.repository.rules", "yaml"]):
    from tests.chaos import fuzz_texts
    from tests.chaos.mutating import refused

_FILE = Path(mkdtemp(prefix="fogline-fuzz-"), "file")


def _of_file(read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    def from_bytes(content: bytes) -> Any:
        _FILE.write_bytes(content)
        return read(_FILE)

    return from_bytes


READERS: list[Callable[[bytes], Any]] = [
    *(_of_file(read) for _, readers in fuzz_texts.FILES.values() for read in readers),
    *(lambda content, read=read: read(content.decode("utf-8", "replace")) for read in fuzz_texts.READERS.values()),
]


def try_one(content: bytes) -> None:
    """What atheris calls."""
    if content:
        refused(lambda: READERS[content[0] % len(READERS)](content[1:]))


if __name__ == "__main__":
    atheris.Setup(sys.argv, try_one)
    atheris.Fuzz()
