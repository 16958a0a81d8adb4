"""Does what is published work where nothing else is installed?

python tools/packaging.py                         every Python that is found: 3.11, 3.12, 3.13
python tools/packaging.py --python PATH …         these
python tools/packaging.py --without-spark         quicker: without the pipeline on Spark

Builds the source archive, and from that archive, for each Python, the wheel, as an index would get them; looks at what
they hold; installs the wheel into an empty environment of its Python and runs there, from an empty folder, what the
README shows and `fogline demo`. Nothing of that may be compiled, and streams of all kinds must come to the same bits
with the machine code of each level of processors. Fails with the first command that does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
MUST_HOLD = (
    "fogline/py.typed",
    "fogline/spark/log4j2.properties",
    "fogline/cli/__init__.py",
    "fogline/page/static/index.html",
)
SUFFIXES = (".py", ".typed", ".properties", ".html", ".css", ".js", ".svg")
README = r"""
import re, sys
known = {}
for block in re.findall(r"```python\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), re.DOTALL):
    if "import pandas" not in block:  # which fogline does not bring
        exec(block, known)
"""
ANSWERS = ROOT / "tests" / "kernels" / "answers.py"
LEVELS = "from fogline.kernels.compile import levels; print(*map(' '.join, levels()), sep=chr(10))"
DEMOS = (["demo", "--latest", "--plain", "--seconds", "2"], ["demo", "--plain", "--seconds", "5", "--sensors", "60"])


def main() -> int:
    """Build, look, install, run."""
    asked = arguments()
    with tempfile.TemporaryDirectory(prefix="fogline-packaging-") as name:
        folder = Path(name)
        pythons = asked.python or found_pythons()
        missing = [] if asked.python else sorted(set(PYTHONS) - {version_of(each) for each in pythons})
        archive = build(pythons[0], folder)
        for python in pythons:
            wheel = build_wheel(python, archive, folder)
            look_at(wheel)
            try_out(python, wheel, folder, spark=not asked.without_spark)
    for version in missing:
        print(f"python{version} is not on the path: not tried. Name it with --python.")
    return 1 if missing else 0


def build(python: str, folder: Path) -> Path:
    """The source archive."""
    tool = environment(python, folder / "build")
    run([tool, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "build"])
    run([tool, "-m", "build", "--sdist", "--outdir", folder / "dist", ROOT])
    [archive] = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as held:
        inside = {each.name.partition("/")[2] for each in held}
    expect(
        "the source archive",
        inside,
        ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src/fogline/py.typed", "lab/__main__.py"),
    )
    if kernels := [name for name in inside if name.endswith(".nbc")]:
        sys.exit(f"the source archive holds machine code: {', '.join(kernels)}")
    return archive


def build_wheel(python: str, archive: Path, folder: Path) -> Path:
    """From the source archive alone, the wheel for this Python."""
    began, place = time.perf_counter(), Path(tempfile.mkdtemp(dir=folder))
    tool = environment(python, place / "build")
    run([tool, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "-w", place, archive])
    [wheel] = place.glob("*.whl")
    print(f"{wheel.name}: built in {time.perf_counter() - began:.0f} s", flush=True)
    return wheel


def look_at(wheel: Path) -> None:
    """It holds what it needs, and nothing else."""
    with zipfile.ZipFile(wheel) as held:
        inside = [name for name in held.namelist() if ".dist-info/" not in name]
    expect("the wheel", inside, MUST_HOLD)
    source = {f"fogline/{path.relative_to(ROOT / 'src' / 'fogline')}" for path in (ROOT / "src").rglob("*")}
    kernels = [name for name in inside if name.startswith("fogline/compiled/") and name.endswith(".nbc")]
    if not kernels:
        sys.exit("the wheel lacks compiled kernels")
    other = [name for name in set(inside) - set(kernels) if not name.endswith(SUFFIXES) or name not in source]
    if other:
        sys.exit(f"the wheel holds what does not belong there: {', '.join(other)}")
    print(
        f"{wheel.name}: {len(inside)} files, {len(kernels)} of them machine code, {wheel.stat().st_size / 1e6:.1f} MB",
        flush=True,
    )


def expect(what: str, inside: Iterable[str], names: Sequence[str]) -> None:
    """An error, if something is missing."""
    if missing := sorted(set(names) - set(inside)):
        sys.exit(f"{what} lacks {', '.join(missing)}")


def try_out(python: str, wheel: Path, folder: Path, *, spark: bool) -> None:
    """In an empty environment, from an empty folder: the README's example, `fogline demo`, each level's answers."""
    version, place = version_of(python), Path(tempfile.mkdtemp(dir=folder))
    there = environment(python, place / "venv")
    install: list[str | Path] = [there, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*install, wheel])
    cache = place / "cache"  # where kernels would be kept
    began = time.perf_counter()
    run([there, "-c", README, ROOT / "README.md"], place, FOGLINE_CACHE=str(cache))
    print(f"the README's examples took {time.perf_counter() - began:.1f} s, start of Python included", flush=True)
    script = there.with_name("fogline")
    run([script, "--version"], place)
    run([script, *DEMOS[0]], place, FOGLINE_CACHE=str(cache))
    if spark:
        extras = "spark" if os.environ.get("JAVA_HOME") or shutil.which("java") else "spark,java"
        run([*install, f"fogline[{extras}] @ {wheel.as_uri()}"])
        run([script, *DEMOS[1]], place, FOGLINE_CACHE=str(cache))
    same_answers(there, place, cache)
    if compiled := sorted(path.name for path in cache.rglob("*.nbc")):
        sys.exit(f"what the wheel does not bring was compiled: {', '.join(compiled)}")
    print(f"Python {version}: works, and compiles nothing", flush=True)
    shutil.rmtree(place)


def same_answers(there: Path, place: Path, cache: Path) -> None:
    """Streams of all kinds come to the same bits with the machine code of each level."""
    levels = subprocess.run([there, "-c", LEVELS], capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for name, _, features in (line.partition(" ") for line in levels):
        chosen = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "FOGLINE_CACHE": str(cache)}
        run([there, ANSWERS, place / name], place, **chosen)
        found[name] = (place / name).read_text(encoding="utf-8")
    if len(set(found.values())) != 1:
        sys.exit(f"the machine code of {' and '.join(found)} gives other answers")
    print(f"the same bits on {' and '.join(found)}", flush=True)


def environment(python: str, place: Path) -> Path:
    """The Python of a new, empty environment."""
    run([python, "-m", "venv", place])
    return place / "bin" / "python"


def found_pythons() -> list[str]:
    """The Pythons on the path, one of each version."""
    found = [path for version in PYTHONS if (path := shutil.which(f"python{version}")) is not None]
    return [path for path in found if works(path)] or sys.exit("no Python is found; name one with --python")


def works(python: str) -> bool:
    """Whether this is a Python, and not something that stands for one that is not chosen."""
    return subprocess.run([python, "--version"], capture_output=True).returncode == 0


def version_of(python: str) -> str:
    """3.12, say."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def run(command: Sequence[str | Path], folder: Path | None = None, **more: str) -> None:
    """A command, without what this process has set for Python; its failure is ours."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    words = [str(each) for each in command]
    print(f"$ {' '.join(words[:1] + [each if len(each) < 80 else '…' for each in words[1:]])}", flush=True)
    if code := subprocess.run(words, cwd=folder, env={**clean, **more}).returncode:
        sys.exit(f"failed with {code}: {' '.join(words)}")


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description="The wheel in empty environments.")
    parser.add_argument("--python", action="append", default=[], help="a Python to try; may be given several times")
    parser.add_argument("--without-spark", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
