"""How is a `fogline run` started hundreds of times, each time as a process of its own?

Most of the time of a short run is spent on imports and on loading kernels. So one process does both, and each run is a
fork of it: a session of its own, which has no threads and no open files of another run, and which is killed, stopped
and waited for as any other. A run that is done `inside` is done by the first process itself, which has its kernels at
hand from then on.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT = 120.0  # seconds of one run
COMMAND = [sys.executable, "-c", "from fogline.cli import app; app()"]


class Started:
    """A process that runs, by its id: killed, stopped and waited for."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid, self.log = pid, log
        self.code: int | None = None  # once it has ended; negative: the signal that ended it

    def poll(self) -> int | None:
        if self.code is None:
            self.code = forks().ask(poll=self.pid)
        return self.code

    def wait(self, limit: float = LIMIT) -> int:
        """Until it ends; one that does not is wrong."""
        until = monotonic() + limit
        while (code := self.poll()) is None:
            if monotonic() > until:
                self.kill()
                raise AssertionError(f"it did not end within {limit:.0f} s:\n{self.shown()}")
            sleep(0.004)
        return code

    def kill(self, which: int = signal.SIGKILL) -> bool:
        """Send a signal to it and all that it has started; whether it was there."""
        try:
            os.killpg(self.pid, which)
        except ProcessLookupError:
            return False
        return True

    def shown(self) -> str:
        """What a user has seen of it."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""


class Command(Started):
    """The same, where the command is started from nothing, as a user does."""

    def __init__(self, words: list[str], folder: Path, log: Path) -> None:
        with log.open("wb") as file:
            how: dict[str, Any] = {"stdout": file, "stderr": subprocess.STDOUT, "env": {**os.environ, "COLUMNS": "400"}}
            self.process = subprocess.Popen([*COMMAND, *words], cwd=folder, start_new_session=True, **how)
        super().__init__(self.process.pid, log)

    def poll(self) -> int | None:
        self.code = self.process.poll()
        return self.code


class Forks:
    """The process that is forked, seen from the one that asks."""

    def __init__(self) -> None:
        words = [sys.executable, "-m", "tests.chaos.zygote"]
        self.process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.close)

    def ask(self, **what: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that is forked has ended")
        return json.loads(answer)

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


@cache
def forks() -> Forks:
    return Forks()


def start(
    words: list[str], folder: Path, *, log: str = "log", patched: dict[str, Any] | None = None, launcher: str = ""
) -> Started:
    """A `fogline run` in a folder. `patched`: values for constants of modules; `launcher`: a function called before."""
    path = folder / log
    how = {"words": words, "folder": str(folder), "log": str(path), "patched": patched or {}, "launcher": launcher}
    return Started(forks().ask(fork=how), path)


def run_inside(words: list[str], folder: Path, *, log: str = "log", patched: dict[str, Any] | None = None) -> int:
    """The same without a process of its own, to its end."""
    how = {"words": words, "folder": str(folder), "log": str(folder / log), "patched": patched or {}, "launcher": ""}
    return int(forks().ask(inside=how))


# --- The process that is forked ---------------------------------------------------------------------------------------


@dataclass
class _Server:
    """Answers one question per line; its own output goes elsewhere."""

    answers: Any

    def serve(self) -> None:
        for line in sys.stdin:
            asked = json.loads(line)
            self.answers.write(json.dumps(self.answer(asked)) + "\n")
            self.answers.flush()

    def answer(self, asked: dict[str, Any]) -> int | None:
        if "poll" in asked:
            pid, status = os.waitpid(asked["poll"], os.WNOHANG)
            return os.waitstatus_to_exitcode(status) if pid else None
        if "inside" in asked:
            return _inside(asked["inside"])
        pid = os.fork()
        if not pid:
            os.setsid()
            self.answers.close()
            _child(asked["fork"])
        with suppress(OSError):
            while os.getpgid(pid) != pid:  # signals go to the group
                sleep(0.0005)
        return pid


def _child(how: dict[str, Any]) -> None:
    code = 70
    try:
        if how["launcher"]:
            module, name = how["launcher"].split(":")
            getattr(importlib.import_module(module), name)()
        code = _inside(how)
    finally:
        os._exit(code)


def _inside(how: dict[str, Any]) -> int:
    """Run the command here; its exit code."""
    from fogline.cli import app

    here, out, err = os.getcwd(), os.dup(1), os.dup(2)
    log = os.open(how["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    before = {name: _patch(name, value) for name, value in how["patched"].items()}
    try:
        os.chdir(how["folder"])
        os.dup2(log, 1), os.dup2(log, 2)
        app(how["words"])
    except SystemExit as ended:
        return int(ended.code or 0) if not isinstance(ended.code, str) else 1
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os.dup2(out, 1), os.dup2(err, 2)
        for each in (log, out, err):
            os.close(each)
        for name, value in before.items():
            _patch(name, value)
        os.chdir(here)
    return 0


def _patch(name: str, value: Any) -> Any:
    module, _, attribute = name.rpartition(".")
    owner = importlib.import_module(module)
    before = getattr(owner, attribute)
    setattr(owner, attribute, value)
    return before


def _main() -> None:
    importlib.import_module("fogline.runs.embedded")  # what every run needs
    os.environ["COLUMNS"] = "400"
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed here is no answer
    _Server(answers).serve()


if __name__ == "__main__":
    _main()
