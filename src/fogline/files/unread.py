"""What lies beside the files of a stream and is not read, or was changed after it was? Each is named once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import NamedTuple, Protocol

from fogline.files.listing import dangles, entries, is_no_text, is_special, kind_of_file, name_in, root_of

LISTED = 5  # names in one remark
STRAYS = "not read, since their names end in none of csv, tsv, json, jsonl, parquet: {}."
DANGLING = "not read, since they are links that lead nowhere: {}."
NO_TEXT = "not read, since their names, or those of their folders, are no UTF-8 text; rename them: {}."
SAME_NAME = (
    "several files have one name, and in a stream that was moved files are known by their names alone, so that one of "
    "each name is read. Give the others names of their own: {}."
)
SPECIAL = "not read, since they are pipes, sockets or devices, and no files: {}."


class Taken(NamedTuple):
    """A file that a run has taken up."""

    when: int  # when it was last changed, in milliseconds
    batch: int


class FileLog(Protocol):
    """Which files a run has taken up; each engine keeps its own."""

    way_out: str  # a sentence: what else can be done where rows are added to files

    def reads_on(self, path: str) -> bool:
        """Whether nothing was done to a file that was taken up but adding lines, which will be read."""

    def known(self, paths: Iterable[str]) -> Mapping[str, Taken]:
        """Those of these files that were taken up, by their absolute paths."""

    def known_names(self, names: Iterable[str]) -> Set[str]:
        """Those of these names that files have which were taken up."""

    def gone(self) -> list[str]:
        """Files that are to be read next, and are no longer there."""


class Unread:
    """What lies there and is not read: `look` reports each thing once."""

    def __init__(self, path: str, log: FileLog, *, by_name: bool = False) -> None:
        self.path, self.root, self.log, self.by_name = path, root_of(path), log, by_name
        self.named: set[str] = set()
        self.behind = 0  # files that were not taken up yet, when they were last looked at

    def begin(self) -> list[str]:
        """What is to be reported before a run begins or goes on."""
        gone = [
            f"{names_of(self.log.gone())} was to be read next when this run stopped, and is gone: its rows are lost."
        ]
        return [*(gone if self.log.gone() else []), *self.look()]

    def look(self) -> list[str]:
        """Sentences about what is new."""
        there = list(entries(self.path))
        others = strays(there, self.root)
        taken = self.log.known(map(str, there))
        names = self.log.known_names(each.name for each in there) if self.by_name else ()
        new = [each for each in there if str(each) not in taken and each.name not in names]
        unread = {*strays(new, self.root), *links(new, self.root), *specials(new, self.root), *unnamed(new, self.root)}
        self.behind = len(new) - len(unread)
        changed = [
            each
            for each in there
            if (was := taken.get(str(each))) and _changed(each) > was.when and not self.log.reads_on(str(each))
        ]
        found = (
            (self._new(others), STRAYS),
            (self._new(links(there, self.root), "link "), DANGLING),
            (self._new(specials(there, self.root), "special "), SPECIAL),
            (self._new(unnamed(there, self.root), "name "), NO_TEXT),
            (self._new(self._alike(there, taken), "same name "), SAME_NAME),
            (self._new(changed, "changed "), "changed after it was taken up; what was added is not read: {}. "
                                             "Write new files instead, under another name first, then rename them. "
                                             + self.log.way_out),
        )  # fmt: skip
        return [sentence.format(names_of(names, self.root)) for names, sentence in found if names]

    def _alike(self, there: list[Path], taken: Mapping[str, Taken]) -> list[Path]:
        """Where files are known by their names: those that were not taken up from where they are, and share a name."""
        if not self.by_name:
            return []
        read = [each for each in there if kind_of_file(str(each), self.root) is not None]
        count = Counter(each.name for each in read)
        return [each for each in read if count[each.name] > 1 and str(each) not in taken]

    def _new(self, paths: Iterable[Path], mark: str = "") -> list[str]:
        names = [str(each) for each in paths if f"{mark}{each}" not in self.named]
        self.named.update(f"{mark}{name}" for name in names)
        return names


def strays(there: Iterable[Path], root: str) -> list[Path]:
    """Those of these files that are not read."""
    return [each for each in there if kind_of_file(str(each), root) is None]


def links(there: Iterable[Path], root: str) -> list[Path]:
    """Those of these that would be read, but lead nowhere."""
    return [each for each in there if kind_of_file(str(each), root) is not None and dangles(each)]


def specials(there: Iterable[Path], root: str) -> list[Path]:
    """Those of these that would be read, but are pipes, sockets or devices."""
    return [each for each in there if kind_of_file(str(each), root) is not None and is_special(each)]


def unnamed(there: Iterable[Path], root: str) -> list[Path]:
    """Those of these that would be read, but have names that are no text."""
    return [each for each in there if kind_of_file(str(each), root) is not None and is_no_text(each)]


def not_read(path: str) -> list[str]:
    """Sentences about the files of a path that are not read; none: all are."""
    there, root = list(entries(path)), root_of(path)
    found = (
        (strays(there, root), STRAYS),
        (links(there, root), DANGLING),
        (specials(there, root), SPECIAL),
        (unnamed(there, root), NO_TEXT),
    )
    return [sentence.format(names_of([str(each) for each in some], root)) for some, sentence in found if some]


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return -1


def names_of(paths: list[str], root: str | None = None) -> str:
    """Some of these files by their names, as seen from the root if it is given, and how many there are besides."""
    names = ", ".join(Path(each).name if root is None else name_in(each, root) for each in paths[:LISTED])
    return names if len(paths) <= LISTED else f"{names} and {len(paths) - LISTED:,} more"
