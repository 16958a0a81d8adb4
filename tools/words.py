"""Are there words in the project that made readers stumble, names that stand for two things, or promises not kept?

python tools/words.py                    everything
python tools/words.py --only docs src/fogline/rows
python tools/words.py --counts           how many finds there are in each room

Words are checked in code, comments, texts and pages; the glossary in CONTRIBUTING.md, between its markers, is the one
place that may name them. `WORDS` and `NAMES` are the lists to edit. Plain Python: nothing has to be installed.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOOKED_AT = ("src", "lab", "tests", "benchmarks", "docs", "examples", "tools", "README.md", "ARCHITECTURE.md",
             "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml", ".ci/run")  # fmt: skip
LEFT_OUT = ("docs/results", "tools/words.py", "tests/formats/kept")
SHOWN = (".js", ".html", ".ipynb")  # of these only what they promise is looked at
KINDS = (".py", ".md", ".toml", "", ".yaml", *SHOWN)
GLOSSARY = ("<!-- glossary -->", "<!-- end of glossary -->")

# --- Words that are not used, and what is used instead: anywhere, as whole words or as a part of snake_case -----------
WORDS = {
    "told": "imputed, reported, emitted, known: whichever it is",
    "tell": "impute, report, state",
    "tells": "imputes, reports, states",
    "telling": "imputing, reporting",
    "teller": "imputer, or imputing function",
    "tellers": "imputers, or imputing functions",
    "said": "reported, stated, read",
    "says": "states, reports, reads",
    "whoever": "the row, the reader, the caller: name it",
    "whomever": "name it",
    "nobody": "no row, no imputer, no caller: name it",
    "somebody": "a row, a user: name it",
    "someone": "a row, a user: name it",
    "everybody": "every row, every user: name it",
    "anybody": "any row, any user: name it",
    "brought": "given, passed, delivered",
    "asleep": "stored, as state",
    "awake": "loaded, in memory",
    "habit": "transition (of a sensor)",
    "habits": "transitions, or the sensor model",
    "subdue": "dominate",
    "subdued": "dominated",
    "conquer": "dominate",
    "conquered": "dominated",
    "buried": "expired, removed",
    "rung": "sorted columns, a level",
    "rungs": "sorted columns, levels",
    "heir": "earlier or later cover",
    "heirs": "earlier or later covers",
    "shelf": "shard",
    "shelves": "shards",
    "crate": "rows of groups: RowsByGroup",
    "crates": "rows of groups: RowsByGroup",
    "bundle": "states of groups, a block",
    "bundles": "states of groups, blocks",
}

# --- Names that are not given to variables, arguments, attributes, functions or classes -------------------------------
NAMES = {
    "mine": "name what it holds",
    "theirs": "name what it holds",
    "ours": "name what it holds, or 'fogline' beside rivals",
    "yours": "name what it holds",
}

# --- Promises of more than is computed, of what is in, and what is stated instead ------------------------------------
PROMISED = "under every value that was imputed"
PROMISES = (
    r"whatever (?:is missing|(?:the|its) (?:missing|unknown) values)",
    r"(?:all|every) values? (?:of what is missing|that (?:the )?missing cells may have)",
)
RIVALS = "lab"  # what is stated of rivals there holds

ALLOWED = {"mine": ("src/fogline/demo", "tests/demo", "tests/spark/test_demo_on_spark.py")}  # a coal mine

WORD = re.compile(r"(?<![A-Za-z])(" + "|".join(sorted(WORDS, key=len, reverse=True)) + r")(?![A-Za-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Find:
    """Something to change: where, what it is, and the way out."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"

    @property
    def room(self) -> str:
        """The folder two levels down: src/fogline/spark, tests/lab, docs; or the file itself."""
        parts = Path(self.path).parts
        return "/".join(parts[: 3 if parts[0] == "src" else 2]) if len(parts) > 2 else "/".join(parts[:2])


# --- Which files ------------------------------------------------------------------------------------------------------


def files(only: Iterable[str]) -> list[Path]:
    """All files to look at, or those below the given paths."""
    found = []
    for name in LOOKED_AT:
        top = ROOT / name
        found += sorted(top.rglob("*")) if top.is_dir() else [top]
    wanted = [Path(each).resolve() for each in only]
    return [path for path in found if _counts(path) and (not wanted or any(_below(path, each) for each in wanted))]


def _counts(path: Path) -> bool:
    named = path.relative_to(ROOT).as_posix()
    inside = not any(named == left or named.startswith(left + "/") for left in LEFT_OUT)
    return path.is_file() and path.suffix in KINDS and inside and "__pycache__" not in path.parts


def _below(path: Path, top: Path) -> bool:
    return path == top or top in path.parents


# --- What is looked for -----------------------------------------------------------------------------------------------


def words(path: Path, text: str) -> Iterator[Find]:
    """Words that are not used."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        inside = GLOSSARY[0] in line or (inside and GLOSSARY[1] not in line)
        if not inside:
            for match in WORD.finditer(line):
                yield _find(path, number, f"{match[0]!r}: use {WORDS[match[0].lower()]}")


def promises(path: Path, text: str) -> Iterator[Find]:
    """Sentences that promise more than is computed, over the ends of lines, quoted or not."""
    for promise in () if _below(path, ROOT / RIVALS) else PROMISES:
        for match in re.finditer(promise.replace(" ", r'["\s]+'), text, re.IGNORECASE):
            yield _find(path, text.count("\n", 0, match.start()) + 1, f"{match[0]!r}: use {PROMISED!r}")


def names(path: Path, text: str) -> Iterator[Find]:
    """Names in Python code that do not name what they hold."""
    for node in ast.walk(ast.parse(text)):
        for name in (getattr(node, field, None) for field in ("id", "arg", "attr", "name")):
            if isinstance(name, str) and name in NAMES and not _allowed(name, path):
                yield _find(path, getattr(node, "lineno", 1), f"the name {name!r}: {NAMES[name]}")


def _allowed(name: str, path: Path) -> bool:
    return any(_below(path, ROOT / place) for place in ALLOWED.get(name, ()))


def shape(path: Path, text: str) -> Iterator[Find]:
    """A module of src or of the lab states what it does."""
    if not ast.get_docstring(ast.parse(text)):
        yield _find(path, 1, "no docstring: a module opens with the question that it answers")


ROOMS = ("rows", "impute", "repository", "engine", "kernels", "flow")
POINTER = re.compile(rf"`(?:fogline\.)?((?:{'|'.join(ROOMS)})[./][a-z_]+)(?:[./][\w./]*)?`")


def pointers(path: Path, text: str) -> Iterator[Find]:
    """A module that a text names, as `rows.names` or `rows/names.py`, is there."""
    for found in POINTER.finditer(text):
        named = ROOT / "src/fogline" / found[1].replace(".", "/")
        public = found[1] == "impute.knn"  # a function of the package
        if not public and not named.with_suffix(".py").exists() and not named.is_dir():
            yield _find(path, text.count("\n", 0, found.start()) + 1, f"{found[0]}: there is no such module")


def _find(path: Path, line: int, text: str) -> Find:
    return Find(path.relative_to(ROOT).as_posix(), line, text)


# --- Everything -------------------------------------------------------------------------------------------------------


def finds(only: Iterable[str] = ()) -> list[Find]:
    """All that is to change, in the order of files."""
    found: list[Find] = []
    for path in files(only):
        text = path.read_text(encoding="utf-8")
        found += promises(path, text)
        if path.suffix not in SHOWN:
            found += words(path, text)
            found += pointers(path, text) if path.name != "CHANGELOG.md" else []
        if path.suffix == ".py":
            found += names(path, text)
            found += shape(path, text) if {ROOT / "src", ROOT / "lab"} & {*path.parents} else []
    return found


def main() -> int:
    """Print the finds, or their counts, and the median length of a file; 1 when there are any."""
    parser = argparse.ArgumentParser(description="Words and names that are not used here.")
    parser.add_argument("--only", nargs="*", default=[], help="files and folders to look at")
    parser.add_argument("--counts", action="store_true", help="one line per room")
    asked = parser.parse_args()
    found = finds(asked.only)
    if asked.counts:
        print("\n".join(f"{count:5} {room}" for room, count in sorted(Counter(each.room for each in found).items())))
    elif found:
        print("\n".join(map(str, found)))
    lengths = [
        path.read_text(encoding="utf-8").count("\n") for path in files([str(ROOT / "src")]) if path.suffix == ".py"
    ]
    lengths = [length for length in lengths if length > 1]  # a folder's __init__ is often its sentence alone
    median = statistics.median(lengths)
    print(f"{len(found)} words or names to change; src has {len(lengths)} modules, median {median:g} lines")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
