"""Do the tests pass with every version of PySpark and of Numba that Fogline works with?

python tools/versions.py                        all of tests/spark with each PySpark, of tests/kernels with each Numba
python tools/versions.py --pyspark 4.2.1 -- tests/spark/test_watch.py
python tools/versions.py --numba 0.68.0

Each version has an environment of its own in .venv-PACKAGE-VERSION, made once, with the other packages as
constraints.txt has them. Test files are run one after another, each in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = {"pyspark": ("4.2.1", "4.3.0"), "numba": ("0.68.0", "0.68.1")}
FOLDERS = {"pyspark": "spark", "numba": "kernels"}  # of tests, where what depends on the package is tested
NO_TESTS = 5  # of pytest's exit codes


def main() -> int:
    """Each version, each file; 1 if any fails."""
    asked = arguments()
    chosen = {package: getattr(asked, package) for package in VERSIONS}
    failed = []
    for package, versions in (chosen if any(chosen.values()) else VERSIONS).items():
        for version in versions:
            python = environment(package, version)
            for path in asked.tests or sorted(map(str, (ROOT / "tests" / FOLDERS[package]).glob("test_*.py"))):
                print(f"{package} {version}: {path}", flush=True)
                code = subprocess.run([python, "-m", "pytest", path], cwd=ROOT).returncode
                if code not in (0, NO_TESTS):
                    failed.append(f"{package} {version}: {path}")
    print("\n".join(["failed:", *failed]) if failed else "all passed")
    return 1 if failed else 0


def environment(package: str, version: str) -> Path:
    """The Python of an environment with this version of the package."""
    place = ROOT / f".venv-{package}-{version}"
    python, ready = place / "bin" / "python", place / ".ready"
    if not ready.exists():
        held = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        lines = [f"{package}=={version}" if line.startswith(f"{package}==") else line for line in held]
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        (place / "constraints.txt").write_text("\n".join(lines), encoding="utf-8")
        install: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--constraint", place / "constraints.txt", "--editable", f"{ROOT}[dev]"], check=True)
        ready.touch()
    return python


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description="Tests with each version of PySpark and of Numba.")
    for package in VERSIONS:
        parser.add_argument(f"--{package}", action="append", default=[], help="a version; may be given several times")
    parser.add_argument("tests", nargs="*", help="test files, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
