"""Is machine code kept where it can be, found where it was carried to, and never taken for another?"""

from __future__ import annotations

import ast
import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import warnings
from functools import cache as cached
from itertools import pairwise
from pathlib import Path

import pytest
from numba.core import config

import fogline
from fogline.kernels import compile as cache
from fogline.kernels.compile import kernel

pytestmark = pytest.mark.slow  # starts processes, which compile

BEATS = """
import numpy as np
from fogline.kernels.dominance import dominates
assert dominates(np.eye(1), 0, np.zeros((1, 1)), 0)
print(sum(dominates.stats.cache_hits.values()), sum(dominates.stats.cache_misses.values()))
"""


def twice(x):
    return x + x


def copied(place: Path, *, later: int) -> Path:
    """A copy of the package without machine code, whose files seem to be of another time."""
    package = Path(fogline.__file__).parent
    shutil.copytree(package, place / "fogline", ignore=shutil.ignore_patterns("__pycache__"))
    for path in place.rglob("*.py"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime + later))
    return place


def edit(package: Path, name: str) -> None:
    with (package / "fogline" / name).open("a") as file:
        file.write("# another text\n")


def kernel_files(package: Path) -> dict[str, Path]:
    """All files with kernels, by their modules."""
    found = [
        path
        for path in (package / "fogline").rglob("*.py")
        if "from fogline.kernels.compile import" in path.read_text()
    ]
    return {".".join(path.relative_to(package).with_suffix("").parts): path for path in found}


@cached
def imports_of(path: Path, package: Path) -> set[Path]:
    """The files of the package that a file imports itself, as Python parses it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [each.name for each in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by relative name"
            names = [str(node.module), *(f"{node.module}.{each}" for each in names)]
        files = (package.joinpath(*name.split(".")).with_suffix(".py") for name in names)
        found |= {each for each in files if each.is_file()}
    return found


def imported(path: Path, package: Path) -> set[Path]:
    """The files of the package that a file imports, itself or through others."""
    found, waiting = set(), {path}
    while waiting:
        one = waiting.pop()
        found.add(one)
        waiting |= imports_of(one, package) - found
    return found


STAMPS = """
import json, sys
from pathlib import Path
from fogline.kernels import compile as cache
package, files, edits = json.load(sys.stdin)
for edited in [None, *edits]:
    if edited is not None:
        with Path(package, edited).open("a") as file:
            file.write("# another text")
    cache.stamp.cache_clear()
    cache._read.cache_clear()
    print(json.dumps({name: cache.stamp(Path(path)) for name, path in files.items()}))
"""


def stamps(package: Path, edits: list[str]) -> list[dict[str, str]]:
    """The stamps of all files with kernels, before and after each of these edits."""
    files = {name: str(path) for name, path in kernel_files(package).items()}
    given = json.dumps([str(package / "fogline"), files, edits])
    env = {**os.environ, "PYTHONPATH": str(package)}
    line = [sys.executable, "-c", STAMPS]
    done = subprocess.run(line, env=env, input=given, capture_output=True, text=True, check=True)
    return [json.loads(each) for each in done.stdout.splitlines()]


def run(package: Path, **more: str) -> list[str]:
    env = {**os.environ, "PYTHONPATH": str(package), "HOME": "/proc/nowhere", **more}
    env = {name: value for name, value in env.items() if name not in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    done = subprocess.run([sys.executable, "-c", BEATS], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def places(monkeypatch, tmp_path):
    """Two folders to keep machine code in, and no other; the first is read-only if it is put into the set."""
    first, second = tmp_path / "first", tmp_path / "second"
    read_only: set[Path] = set()
    write = cache._write

    def write_if_allowed(folder, name, data):
        if folder in read_only:
            raise OSError(errno.EROFS, "Read-only file system")
        write(folder, name, data)

    monkeypatch.setattr(cache, "_write", write_if_allowed)
    monkeypatch.setattr(cache, "_folders", lambda *_: (first, second))
    cache._warn_once.cache_clear()
    return first, second, read_only


def counts(compiled) -> tuple[int, int]:
    return sum(compiled.stats.cache_hits.values()), sum(compiled.stats.cache_misses.values())


def test_a_cache_is_good_where_the_package_lies_elsewhere_and_seems_newer(tmp_path):
    one, other = copied(tmp_path / "one", later=0), copied(tmp_path / "other", later=1000)
    assert run(one, FOGLINE_CACHE=str(tmp_path / "cache")) == ["0", "1"]
    assert not any(one.rglob("*.nbc"))
    assert run(other, FOGLINE_CACHE=str(tmp_path / "cache")) == ["1", "0"]
    assert not any(other.rglob("*.nbc"))


def test_a_changed_source_is_compiled_anew_and_replaces_the_old(tmp_path):
    package = copied(tmp_path / "one", later=0)
    assert run(package) == ["0", "1"]
    [before] = package.rglob("*.nbc")
    edit(package, "kernels/sorting.py")  # not imported by `dominance`
    assert run(package) == ["1", "0"]
    edit(package, "kernels/dominance.py")
    assert run(package) == ["0", "1"]
    [after] = package.rglob("*.nbc")
    assert before.name != after.name


def test_an_edit_renews_what_imports_the_edited_file_and_nothing_else(tmp_path):
    package = copied(tmp_path, later=0)
    files, edits = kernel_files(package), ["kernels/sums.py", "kernels/rtree.py", "kernels/compile.py", "arrays.py"]
    reached = {name: imported(path, package) for name, path in files.items()}
    found = stamps(package, edits)
    for edit, (before, after) in zip(edits, pairwise(found), strict=True):
        expected = {name for name in files if package / "fogline" / edit in reached[name]}
        assert {name for name in files if before[name] != after[name]} == expected, edit
        assert expected
        assert (expected == files.keys()) == (edit == "kernels/compile.py")


def test_what_a_wheel_brings_is_used_where_it_fits_and_never_changed(tmp_path):
    package = copied(tmp_path / "one", later=0)
    shipped = package / "fogline" / "compiled"
    baseline = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    assert run(package, FOGLINE_CACHE=str(shipped), **baseline) == ["0", "1"]
    files = set(package.rglob("*.nbc"))
    assert run(package) == ["1", "0"]  # though this processor can do more
    assert run(package, **baseline) == ["1", "0"]
    assert set(package.rglob("*.nbc")) == files
    edit(package, "kernels/dominance.py")
    assert run(package) == ["0", "1"]
    assert set(shipped.rglob("*.nbc")) == files


def test_code_for_another_processor_is_taken_only_where_it_runs_and_none_was_named(monkeypatch):
    v3, generic = cache.LEVELS
    assert cache.levels(v3.features + ",+avx512f") == [v3, generic]
    assert cache.levels(v3.features.replace("+avx2,", "-avx2,")) == [generic]
    own = ("linux", "znver4", v3.features)
    monkeypatch.setattr(config, "CPU_NAME", None)
    assert cache._fitting.__wrapped__(own) == [own, ("linux", *v3), ("linux", *generic)]
    monkeypatch.setattr(config, "CPU_NAME", "znver4")
    assert cache._fitting.__wrapped__(own) == [own]


def test_a_file_system_without_locks_keeps_machine_code_too(monkeypatch, places):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    monkeypatch.setattr(fcntl, "lockf", no_locks)
    assert kernel(twice)(4) == 8
    again = kernel(twice)
    assert [again(4), counts(again)] == [8, (1, 0)]


def test_machine_code_for_different_types_is_kept_apart(places):
    first, _, _ = places
    numbers = [1, 1.5, 1j]
    assert [kernel(twice)(x) for x in numbers] == [2, 3.0, 2j]  # each compiled for itself, as in processes of their own
    assert len(list(first.glob("*.nbc"))) == 3
    again = kernel(twice)
    assert [again(x) for x in numbers] == [2, 3.0, 2j]
    assert counts(again) == (3, 0)


def test_a_torn_file_is_compiled_anew(places):
    first, _, _ = places
    kernel(twice)(4)
    [path] = first.glob("*.nbc")
    whole = path.read_bytes()
    for torn in (whole[: len(whole) // 2], b"", b"cfogline.errors\nGone\n."):
        path.write_bytes(torn)
        again = kernel(twice)
        assert [again(4), counts(again)] == [8, (0, 1)]


def test_what_a_read_only_cache_lacks_is_kept_elsewhere_with_a_warning(monkeypatch, places):
    first, second, read_only = places
    read_only.add(first)
    monkeypatch.setenv("FOGLINE_CACHE", str(first))
    with pytest.warns(RuntimeWarning, match=r"cannot be written and does not hold all .* kept in .*second"):
        assert kernel(twice)(4) == 8
    again = kernel(twice)
    assert [again(4), counts(again), len(list(second.iterdir()))] == [8, (1, 0), 1]


def test_with_nowhere_to_write_kernels_work_with_one_warning(places):
    first, second, read_only = places
    read_only |= {first, second}
    with pytest.warns(RuntimeWarning, match="every process compiles them again.*Set FOGLINE_CACHE"):
        assert kernel(twice)(4) == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernel(twice)(4) == 8


def test_folders_are_tried_in_the_stated_order(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(cache, "gettempdir", lambda: str(tmp_path))
    room = Path(cache.__file__).parent
    found = cache._folders(room, str(tmp_path / "carried"), str(tmp_path / "numba"), "v")
    own = tmp_path / f"fogline-kernels-{os.getuid()}"
    assert found == (
        tmp_path / "carried" / "fogline.kernels",
        tmp_path / "numba" / "fogline.kernels",
        room / "__pycache__",
        tmp_path / "user" / "fogline" / "kernels" / "fogline.kernels-v",
        own / "fogline.kernels-v",
    )


def test_machine_code_is_never_taken_from_where_others_may_write(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "gettempdir", lambda: str(tmp_path))
    own = tmp_path / f"fogline-kernels-{os.getuid()}"
    cache._write(own / "room", "code", b"")
    assert cache._is_safe(own / "room")
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    assert not cache._is_safe(own / "room")
    with pytest.raises(PermissionError, match="others may write"):
        cache._write(own / "room", "code", b"")
    own.rename(tmp_path / "theirs")
    own.symlink_to(tmp_path / "theirs")
    assert not cache._is_safe(own / "room")


def test_what_was_used_is_copied_under_the_name_of_its_room(monkeypatch, places, tmp_path):
    monkeypatch.setattr(cache, "_used", {})
    kernel(twice)(4)
    assert cache.copy_used(tmp_path / "copy") == 1
    [path] = (tmp_path / "copy").rglob("*.nbc")
    assert path.parent.name == cache._room_name(Path(__file__).parent)
    assert path.read_bytes() == next(places[0].iterdir()).read_bytes()
