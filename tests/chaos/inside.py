"""What if one of SQLite's own operations on the file of the state fails?

`disk.Disk` does not see them: SQLite calls the system by itself. Here a few lines of C stand between, loaded before the
C library: the n-th operation (open, read, write, sync, truncate) on a file of the state fails, with an I/O error or a
full disk, once or from then on. Batches are committed with such a fault at every operation, one after the other. After
each the error names a cause and is none that was not foreseen, and the same batches again leave the same state.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fogline.cli.terminal import in_words
from tests.chaos.case import SAME, Case, NotHere, Outcome

PART, BATCHES = "inside", 4
KINDS = {
    "I/O error, once": (errno.EIO, False),
    "I/O error, from then on": (errno.EIO, True),
    "full, once": (errno.ENOSPC, False),
    "full, from then on": (errno.ENOSPC, True),
}
SMALL = 3_000  # bytes of changes that wait, so that a batch writes before its commit
C = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static long count, at = -1, failed;
static int number, on;
void fail_at(long n, int error, int from_then_on) { count = failed = 0; at = n; number = error; on = from_then_on; }
long fails(void) { return failed; }
static int now(void) {
    long n = count++;
    if (at < 0 || !(n == at || (on && n > at))) return 0;
    failed++; errno = number; return 1;
}
static int ours(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strstr(path, "state.sqlite") != NULL;
}
#define REAL(kind, name, ...) static kind (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, #name)
#define WRITE(name) ssize_t name(int fd, const void *from, size_t n, off64_t to) { \
    REAL(ssize_t, name, int, const void *, size_t, off64_t); \
    if (ours(fd) && now()) { if (number == ENOSPC) real(fd, from, n / 2, to); errno = number; return -1; } \
    return real(fd, from, n, to); }
#define READ(name) ssize_t name(int fd, void *to, size_t n, off64_t from) { \
    REAL(ssize_t, name, int, void *, size_t, off64_t); \
    return number == EIO && ours(fd) && now() ? -1 : real(fd, to, n, from); }
#define SYNC(name) int name(int fd) { REAL(int, name, int); return ours(fd) && now() ? -1 : real(fd); }
#define CUT(name) int name(int fd, off64_t size) { \
    REAL(int, name, int, off64_t); return ours(fd) && now() ? -1 : real(fd, size); }
#define OPEN(name) int name(const char *path, int flags, ...) { \
    REAL(int, name, const char *, int, ...); \
    va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
    return strstr(path, "state.sqlite") && now() ? -1 : real(path, flags, mode); }
WRITE(pwrite64) WRITE(pwrite) READ(pread64) READ(pread) SYNC(fsync) SYNC(fdatasync) CUT(ftruncate64) CUT(ftruncate)
OPEN(open64) OPEN(open)
"""


def cases(seed: int) -> Iterator[Case]:
    """Each kind of fault; there is nothing to draw, so that one seed is all."""
    for kind in KINDS if seed == 0 else ():
        for small in (False, True):
            how = f"{kind}{', much at a time' if small else ''}"
            yield Case(PART, "SQLite's own operations", how, seed, partial(tried, kind, small))


def tried(kind: str, small: bool, most: int | None = None) -> Outcome:
    """Every operation fails (or the first few) in this way, in a process of its own."""
    with TemporaryDirectory(prefix="fogline-inside-") as folder:
        words = [sys.executable, "-m", "tests.chaos.inside", kind, str(int(small)), str(most or 10**9), folder]
        found = subprocess.run(words, env=os.environ | {"LD_PRELOAD": str(compiled(Path(folder)))},
                               capture_output=True, text=True)  # fmt: skip
    assert found.returncode == 0, found.stderr
    return Outcome(SAME, faults=json.loads(found.stdout))


def compiled(folder: Path) -> Path:
    """What stands between SQLite and the system."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        raise NotHere("a C compiler and Linux are needed to stand between SQLite and the system")
    source, made = folder / "between.c", folder / "between.so"
    source.write_text(C)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True, capture_output=True)
    return made


def main(kind: str, small: str, most: str, root: str) -> None:
    """All faults of a kind; how many there were."""
    from fogline.state import sqlite
    from fogline.state.sqlite import Checkpoint
    from tests.state.test_sqlite import content, filled

    if int(small):
        sqlite.WAITING, sqlite.CACHED = SMALL, 40 * 1024
    between, (number, on) = ctypes.CDLL(None), KINDS[kind]
    folder = Path(root) / "checkpoint"
    filled(folder, BATCHES).close()
    with closing(Checkpoint(folder, "mark")) as kept:
        expected = content(kept)
    for n in range(int(most)):
        shutil.rmtree(folder)
        between.fail_at(ctypes.c_long(n), number, int(on))
        try:
            filled(folder, BATCHES).close()
        except Exception as error:
            text = " ".join(in_words(error))
            assert "did not foresee" not in text, f"operation {n}, {kind}: {text}"
        failed = between.fails()
        between.fail_at(ctypes.c_long(-1), 0, 0)
        gc.collect()  # what a failed run has left open
        filled(folder, BATCHES).close()
        with closing(Checkpoint(folder, "mark")) as kept:
            assert content(kept) == expected, f"operation {n}, {kind}: another state"
        if not failed:
            break
    print(n)


if __name__ == "__main__":
    main(*sys.argv[1:])
