"""A PostgreSQL server of our own, in a temporary folder, on a free port of this machine."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

FETCH = "apt-get install postgresql (initdb and pg_ctl on the PATH, or in /usr/lib/postgresql/*/bin)"
UNPRIVILEGED = ("postgres", "nobody")  # PostgreSQL refuses to be run by root


@dataclass
class Postgres:
    """A server that can be killed and started again."""

    folder: Path
    port: int
    programs: Path
    user: str | None  # who runs it; None: this process's user

    @property
    def url(self) -> str:
        """The database, as libpq and Fogline know it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """It answers when this returns."""
        words = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self._run("pg_ctl", "-D", str(self.data), "-w", "-l", str(self.folder / "log"), "-o", words, "start")

    def kill(self) -> None:
        """SIGKILL to the server and all that it has forked: nothing is written in the last moment."""
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        there = [first, *_children(first)]
        for pid in there:
            _kill(pid)
        limit = monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() and not _is_zombie(pid) for pid in there) and monotonic() < limit:
            sleep(0.01)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Asked to end, at once."""
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "stop")

    @property
    def data(self) -> Path:
        """The server's own folder."""
        return self.folder / "data"

    def _run(self, program: str, *words: str) -> None:
        command = [str(self.programs / program), *words]
        if self.user is not None:
            command = ["runuser", "-u", self.user, "--", *command]
        # a file, not a pipe: the server inherits it, and a pipe would stay open as long as the server runs
        with (self.folder / "commands").open("ab") as out:
            done = subprocess.run(command, cwd="/", stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{self._logged()}")

    def _logged(self) -> str:
        found = (self.folder / name for name in ("commands", "log"))
        return "".join(path.read_text()[-2000:] for path in found if path.exists())


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server with an empty database; skipped, with the command that would fetch it, where there is none."""
    programs, user = _programs(), _user()
    folder = Path(tempfile.mkdtemp(prefix="fogline-pg-"))
    server = Postgres(folder, free_port(), programs, user)
    try:
        if user is not None:
            shutil.chown(folder, user)
        server._run("initdb", "-D", str(server.data), "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8")
        server.start()
        yield server
    finally:
        if server.data.exists():
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port of this machine that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _programs() -> Path:
    found = shutil.which("initdb"), shutil.which("pg_ctl")
    if found[0] and found[1]:
        return Path(found[1]).parent
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not newest:
        pytest.skip(f"there is no PostgreSQL server here: {FETCH}")
    return newest[-1].parent


def _user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    user = next((name for name in UNPRIVILEGED if name in known), None)
    if user is None or shutil.which("runuser") is None:
        pytest.skip("PostgreSQL refuses to be run by root, and there is no user to run it as: useradd postgres")
    return user


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
