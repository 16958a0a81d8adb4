"""Do the tests on Spark pass with every version of PySpark that Fogline works with?

python tools/versions.py                        all of tests/spark, on both
python tools/versions.py --pyspark 4.2.1 -- tests/spark/test_watch.py

Each version has an environment of its own in .venv-pyspark-VERSION, made once, with the other packages as
constraints.txt has them. Test files are run one after another, each in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("4.2.1", "4.3.0")
NO_TESTS = 5  # of pytest's exit codes


def main() -> int:
    """Each version, each file; 1 if any fails."""
    asked = arguments()
    failed = []
    for version in asked.pyspark or VERSIONS:
        python = environment(version)
        for path in asked.tests or sorted(map(str, (ROOT / "tests" / "spark").glob("test_*.py"))):
            print(f"PySpark {version}: {path}", flush=True)
            code = subprocess.run([python, "-m", "pytest", path], cwd=ROOT).returncode
            if code not in (0, NO_TESTS):
                failed.append(f"PySpark {version}: {path}")
    print("\n".join(["failed:", *failed]) if failed else "all passed")
    return 1 if failed else 0


def environment(version: str) -> Path:
    """The Python of an environment with this version of PySpark."""
    place = ROOT / f".venv-pyspark-{version}"
    python, ready = place / "bin" / "python", place / ".ready"
    if not ready.exists():
        held = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        lines = [f"pyspark=={version}" if line.startswith("pyspark==") else line for line in held]
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        (place / "constraints.txt").write_text("\n".join(lines), encoding="utf-8")
        install: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--constraint", place / "constraints.txt", "--editable", f"{ROOT}[dev]"], check=True)
        ready.touch()
    return python


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description="Tests on Spark, with each version of PySpark.")
    parser.add_argument("--pyspark", action="append", default=[], help="a version; may be given several times")
    parser.add_argument("tests", nargs="*", help="test files, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
