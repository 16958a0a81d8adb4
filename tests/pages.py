"""Runs the blocks of a page of the docs: Python in its order; those without a language are what was printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """All blocks of the page; what its code has defined."""
    known: dict[str, object] = {}
    printed = ""
    for kind, text in BLOCK.findall((DOCS / name).read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(text, name, "exec"), known)
            printed = capsys.readouterr().out
        elif not kind:
            for line in text.splitlines():
                assert " ".join(line.split()) in " ".join(printed.split()), f"{line!r} is not in\n{printed}"
    assert known, f"{name} has no code"
    return known
