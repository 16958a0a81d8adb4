"""What went wrong, in one sentence?

Fogline's own errors are sentences already. Those of the file system, of Arrow, of YAML and of Spark are not: they
become one sentence with the file's name, and, where the cause lies deeper, the path of a log with the whole traceback.
"""

from __future__ import annotations

import errno
import os
import traceback
from pathlib import Path
from tempfile import mkstemp

from fogline.errors import FoglineError

WORDS = {
    "FileNotFoundError": "is not there, or cannot be made there",
    "IsADirectoryError": "is a folder, where a file is needed",
    "NotADirectoryError": "is a file, where a folder is needed",
    "PermissionError": "may not be read or written by this user",
    "FileExistsError": "is there already",
}


OF_THE_DISK = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
MENDED = " When that is mended, run the same command again."


def in_words(error: BaseException) -> list[str]:
    """The lines to print for an error: a sentence, then notes."""
    notes = list(getattr(error, "__notes__", ()))
    if isinstance(error, FoglineError):
        return [f"{type(error).__name__}: {error}", *notes]
    if isinstance(error, OSError) and not _is_arrow(error):
        return [_of_files(error), *notes]
    if isinstance(error, UnicodeDecodeError):
        found = f"bytes that are no {error.encoding} text, such as {error.object[error.start : error.end]!r}"
        return [f"a file holds {found}: is it a binary file, or one of another encoding?", *_logged(error)]
    if isinstance(error, ImportError) and (error.name is None or error.name.startswith("pyspark")):
        return [str(error)]
    if isinstance(error, MemoryError):
        return ["there is not enough memory for this in one process; with --master 'local[*]' Spark does it in parts."]
    return [f"{_source(error)}: {_first_line(error)}", *notes, *_logged(error)]


def _of_files(error: OSError) -> str:
    if error.filename is None:
        return f"the file system reports: {error.strerror or error}."
    what = WORDS.get(type(error).__name__, "")
    name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
    if isinstance(error, NotADirectoryError):  # the file that is in the way
        name = next((str(each) for each in Path(name).parents if each.is_file()), name)
    reason = what or f"cannot be used: {(error.strerror or str(error)).lower()}"
    return f"{name!r} {reason}.{MENDED if error.errno in OF_THE_DISK else ''}"


def _source(error: BaseException) -> str:
    """Who reports it, for people."""
    room = type(error).__module__.partition(".")[0]
    known = {"pyspark": "Spark reports", "py4j": "Spark reports", "pyarrow": "Arrow reports", "yaml": "this is no YAML"}
    return known.get(room, f"something went wrong that Fogline did not foresee ({type(error).__name__})")


def _is_arrow(error: BaseException) -> bool:
    return type(error).__module__.startswith("pyarrow")


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _logged(error: BaseException) -> list[str]:
    """The whole traceback in a file; a line that states where. Nothing where no file can be written."""
    try:
        number, path = mkstemp(prefix="fogline-error-", suffix=".log")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            traceback.print_exception(error, file=file)
    except OSError:
        return []
    return [f"The whole of it is in {Path(path)}"]
