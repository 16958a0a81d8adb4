"""Paths: which lie on this machine, and which files of one belong to a stream."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from urllib.parse import unquote

from fogline.errors import FoglineError, did_you_mean


def absolute(path: str) -> str:
    """The same path wherever another process thinks it is."""
    return os.path.abspath(plain(path)) if is_local(path) else path


def plain(path: str) -> str:
    """The path as this machine writes it; one of another file system as it is.

    >>> plain("file:///tmp/in"), plain("file:/tmp/in"), plain("in"), plain("hdfs://host/in")
    ('/tmp/in', '/tmp/in', 'in', 'hdfs://host/in')
    """
    return re.sub(r"^file:(?://)?(?=/(?!/))", "", path, flags=re.IGNORECASE)


def is_local(path: str) -> bool:
    """Does the path name no file system, or that of this machine?"""
    return re.match(r"[a-zA-Z][\w+.-]*:/", plain(path)) is None


# --- What is written must not lie in what is read ---------------------------------------------------------------------


def must_be_apart(source: str, output: str) -> None:
    """An error, if what is read and what is written lie in one another."""
    if not (is_local(source) and is_local(output)):
        return
    made = Path(output).resolve()
    for root in (Path(source), *map(Path, glob(source))):
        read = root.resolve()
        if made == read or (read.is_dir() and read in made.parents):
            where = "is what is read" if made == read else f"lies in {str(root)!r}, which is read"
            raise FoglineError(f"the output {output!r} {where}: it would be read again. Choose a folder beside it.")
        if made in read.parents:
            raise FoglineError(
                f"{str(root)!r}, which is read, lies in the output {output!r}. Choose a folder beside it instead."
            )
    pattern = str(Path(source).absolute())
    if any(fnmatch(str(each), pattern) for each in (made, *made.parents)) and pattern != str(made):
        raise FoglineError(
            f"the output {output!r} would be read again: {source!r} names it, too. Choose a folder beside it."
        )


# --- Which files belong to a stream -----------------------------------------------------------------------------------
#
# Files whose names end in .parquet, .csv, .tsv, .json, .jsonl or .ndjson, packed (.gz, .bz2, .zst, .lz4) or not, each
# read by its own kind: those of the folder and of its subfolders. What begins with . or _ is hidden and left out
# without a word, folders included; every other file is left out by its end (.part, .tmp, .txt, .xlsx), and is named
# once (`files.unread`), for a file that is not read shall not look as if it were; so are links that lead nowhere,
# pipes, and names that are no text. A link to a folder that holds it is not followed: its files would be read again. In
# a folder that is called by a kind (data.parquet) files without any end are of that kind.

KINDS = {"parquet": ("parquet",), "csv": ("csv",), "tsv": ("tsv",), "json": ("json", "jsonl", "ndjson")}
PACKED = ("gz", "bz2", "zst", "lz4")  # behind the end of a text kind
MIXED = "mixed"  # the kind of a stream whose files have several


def kind_of_name(name: str) -> str | None:
    """The kind that a file's name shows.

    >>> kind_of_name("a.csv.gz"), kind_of_name("part-0.snappy.parquet"), kind_of_name("b.csv.tmp")
    ('csv', 'parquet', None)
    >>> kind_of_name("a.csv.snappy"), kind_of_name("a.parquet.gz")
    (None, None)
    """
    parts = Path(name.rstrip("/*")).name.lower().split(".")[1:]
    packed = len(parts) > 1 and parts[-1] in PACKED
    end = parts[-2] if packed else parts[-1] if parts else ""
    return next((kind for kind, ends in KINDS.items() if end in ends and not (packed and kind == "parquet")), None)


def kind_of_file(path: str, root: str) -> str | None:
    """The kind of a file of the stream at `root`; None: it is not read.

    >>> kind_of_file("/data.csv/part-0", "/data.csv"), kind_of_file("/in/.a.csv", "/in")
    ('csv', None)
    """
    inner = _below(path, root)
    if any(part.startswith((".", "_")) for part in inner.parts):
        return None
    return kind_of_name(inner.name) or (kind_of_name(root) if "." not in inner.name else None)


def is_stray(path: str, root: str) -> bool:
    """Whether a file of another file system lies in the stream at `root`, is not hidden, and is not read.

    >>> is_stray("hdfs://h/in/a.txt", "hdfs://h/in"), is_stray("hdfs://h/in/_tmp/a.csv", "hdfs://h/in")
    (True, False)
    """
    hidden = any(part.startswith((".", "_")) for part in _below(path, root).parts)
    return not hidden and kind_of_file(path, root) is None


def _below(path: str, root: str) -> Path:
    """The path as seen from the root; the name alone where it does not lie there."""
    try:
        return Path(path).relative_to(root)
    except ValueError:
        return Path(Path(path).name)


def name_in(path: str, root: str) -> str:
    """What a file of the stream at `root` is called."""
    return _below(path, root).as_posix()


def folder_values(path: str, root: str) -> dict[str, str]:
    """What the names of subfolders state, as texts.

    >>> folder_values("/in/site=north/day=1/a.csv", "/in")
    {'site': 'north', 'day': '1'}
    """
    pairs = [part.split("=", 1) for part in _below(path, root).parts[:-1] if "=" in part]
    return {unquote(name): unquote(value) for name, value in pairs}


def root_of(path: str) -> str:
    """The folder that names of files are relative to: of a pattern, the one before its first wildcard."""
    whole = absolute(path)
    if is_local(path) and Path(whole).is_file():
        return str(Path(whole).parent)
    if not has_magic(whole) or (is_local(path) and Path(whole).exists()):
        return whole.rstrip("/") or "/"
    parts = whole.split("/")
    return "/".join(parts[: next(k for k, part in enumerate(parts) if has_magic(part))]) or "/"


def files_of(path: str) -> list[Path]:
    """The files of the stream that are there, by their names."""
    root = root_of(path)
    named = (each for each in entries(path) if kind_of_file(str(each), root) is not None)
    return sorted(each for each in named if not (dangles(each) or is_special(each) or is_no_text(each)))


def dangles(path: Path) -> bool:
    """Whether this is a link that leads nowhere, as far as this user can see."""
    return path.is_symlink() and not path.exists()


def is_special(path: Path) -> bool:
    """Whether this is a pipe, a socket or a device: to read from it may take forever."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def is_no_text(path: Path) -> bool:
    """Whether the path has bytes that are no UTF-8: then nothing that is written could name the file."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return True
    return False


def size_of(path: Path) -> int:
    """The bytes of a file; 0 if it is there no longer."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def kind_of(path: str, *, existing: bool, others: Iterable[str] = ()) -> str:
    """What kind of files these are, `MIXED` where they have several; an error where that is not shown.

    `others`: names of files there, if they are not on this machine.
    """
    if existing and is_local(path):
        must_exist(path)
    named = kind_of_name(path)
    if named is not None and not (existing and is_local(path) and Path(path).is_dir()):
        return named
    root = root_of(path)
    names = [*others, *(str(each) for each in files_of(path))] if existing else []
    found = sorted({kind for name in names if (kind := kind_of_file(name, root))})
    if found:
        return found[0] if len(found) == 1 else MIXED
    known = ", ".join(f".{end}" for ends in KINDS.values() for end in ends)
    raise FoglineError(f"{path!r} does not show what it holds: its name, or the files in it, should end in {known}.")


def must_exist(path: str) -> None:
    """An error with a guess, if there is no such file, folder or pattern on this machine."""
    if not is_local(path) or Path(path).exists() or glob(path):
        return
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise FoglineError(f"there is no file {path!r}: not even the folder {str(folder)!r} is there.")
    near = did_you_mean(Path(path).name, [each.name for each in folder.iterdir()])
    raise FoglineError(f"there is no file {path!r}.{near}")


def pattern_of(path: str) -> str:
    """A pattern for the names of files that may be read; empty: any name, since the folder's own shows the kind."""
    if kind_of_name(root_of(path)) is not None:
        return ""
    ends = [_any_case(end) for each in KINDS.values() for end in each]
    packed = [_any_case(each) for each in PACKED]
    texts = [_any_case(end) for kind, each in KINDS.items() for end in each if kind != "parquet"]
    return "*.{" + ",".join([*ends, *(f"{end}.{each}" for end in texts for each in packed)]) + "}"


def _any_case(end: str) -> str:
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in end)


def entries(path: str) -> Iterator[Path]:
    """All files there that are not hidden, of any kind, in the folder and its subfolders."""
    if not is_local(path):
        return
    roots = _roots(path)
    folders = [root for root in roots if root.is_dir()]
    yield from (root for root in roots if root.is_file())
    while folders:
        for each in _inside(folders.pop()):
            if each.name.startswith((".", "_")):
                continue
            if not each.is_dir():
                yield each
            elif not _holds_itself(each):
                folders.append(each)


def _roots(path: str) -> list[Path]:
    """The path, or what its pattern names."""
    whole = absolute(path)
    return [Path(whole)] if Path(whole).exists() else [Path(each) for each in sorted(glob(whole))]


def stamp(path: str) -> int:
    """A number that stays the same as long as nothing is done to the files of a stream. O(files), 3 µs each.

    It shows a new file, one that has grown or is gone, and a link that leads somewhere now.
    """
    seen: list[tuple[str, int, int]] = []
    waiting = [str(each) for each in _roots(path)]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as inside:
                for each in inside:
                    if each.name.startswith((".", "_")):
                        continue
                    if not _is_folder(each):
                        seen.append(_seen(each.path, each.stat))
                    elif not (each.is_symlink() and _holds_itself(Path(each.path))):
                        waiting.append(each.path)
        except (FileNotFoundError, NotADirectoryError):  # it is a file, or there no longer
            seen.append(_seen(place, partial(os.stat, place)))
    return hash(tuple(seen))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether this is a folder, or leads to one; a link that leads to itself does not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _seen(path: str, look: Callable[[], os.stat_result]) -> tuple[str, int, int]:
    try:
        found = look()
    except OSError:
        return path, -1, 0
    return path, found.st_size, found.st_mtime_ns


def _inside(folder: Path) -> list[Path]:
    """What a folder holds; nothing, if it is there no longer."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _holds_itself(folder: Path) -> bool:
    """Whether this is a link to a folder in which it lies, be it by way of other links."""
    if not folder.is_symlink():
        return False
    above = [each.resolve() for each in folder.parents]
    return any(folder.resolve() in (each, *each.parents) for each in above)


def folders_in(path: str) -> set[Path]:
    """The folders of the files of the stream."""
    return {each.parent for each in files_of(path)}
