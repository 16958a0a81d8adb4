"""Can one who does not know the theory read the help: is there some for every option, short and in plain words?"""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer.main

from fogline.cli import app
from tests.pages import ROOT

LONGEST = 20  # words of a sentence
COINED = {
    *("cell", "cloud", "determinant", "dominate", "dominated", "dominator", "exchange", "front", "guard", "heard"),
    *("imputer", "instance", "instant", "kernel", "kin", "lattice", "marker", "oriented", "rival", "screened"),
    *("shadow", "shard", "spoken", "undecided", "vague"),
}  # words of the code, which a plant engineer does not know
COMMANDS: Any = typer.main.get_command(app)


def texts() -> dict[str, str | None]:
    """Every help text, by its command and option."""
    found = {"fogline": COMMANDS.help}
    for name, command in COMMANDS.commands.items():
        found[name] = command.help
        for each in command.params:
            found[f"{name} {each.opts[0]}"] = each.help
    return found


def sentences(text: str) -> list[str]:
    """What ends with a mark, a paragraph or a line of a list; code counts as one word, and a default is apart."""
    plain = re.sub(r"`[^`]*`|'[^']*'(?!\w)", "CODE", text.replace("e.g.", "eg").replace("\b", ""))
    parts = re.split(r"[.!?](?:\s+|$)|\n\s*\n|\n\s*- |\(default: |\)", plain)
    return [" ".join(part.removeprefix("- ").split()) for part in parts if part.strip()]


@pytest.mark.parametrize("name", texts())
def test_every_help_text_is_there_and_short_and_plain(name):
    text = texts()[name]
    assert text, "it has no help"
    assert [each for each in sentences(text) if len(each.split()) > LONGEST] == []
    words = {word.lower() for word in re.findall(r"[A-Za-z]+", re.sub(r"`[^`]*`|guards against", "", text))}
    assert sorted(words & {form for word in COINED for form in (word, f"{word}s")}) == []


def test_sentences_are_counted_as_they_are_read():
    assert sentences("Field separator, e.g. ';' or 'tab' (default: it is `a. b`). Then\nmore.\n\n- a: b") == [
        "Field separator, eg CODE or CODE", "it is CODE", "Then more", "a: b",
    ]  # fmt: skip


def test_the_texts_that_are_read_most_are_those_that_are_shown():
    """The table in docs/results/texts.md: of each command its first line, of each option its whole help."""
    page = (ROOT / "docs" / "results" / "texts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z -]+)` \| .* \| (.*) \|$", page, re.MULTILINE)
    now = {name.replace("fogline --help", "fogline"): " ".join((text or "").split()) for name, text in texts().items()}
    assert len(rows) >= 40
    for name, after in rows:
        shown = now[name.removesuffix(" --help")].replace("$", "\\$")
        assert shown == after if "--" in name.removesuffix(" --help") else shown.startswith(after), name
