"""Do what is read and what is written lie in one another? Then what was written would be read again."""

from __future__ import annotations

from fnmatch import fnmatch
from glob import glob
from pathlib import Path

from fogline.errors import FoglineError
from fogline.files.paths import is_local


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
