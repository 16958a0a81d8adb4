"""What does each target of the Makefile install?"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")]


def installed_by(target: str, venv: Path) -> list[str]:
    """The extras that a target would install, as the environment is."""
    line = ["make", "--dry-run", "--no-print-directory", target, f"VENV={venv}", "JAVA_HOME=/java"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    return [each.partition("[")[2].partition("]")[0] for each in done.stdout.splitlines() if "--editable" in each]


def stamp(venv: Path, name: str, *, newer: bool = True) -> None:
    """The environment holds this, installed after or before the last change of what the project needs."""
    when = (ROOT / "pyproject.toml").stat().st_mtime + (10 if newer else -10)
    venv.mkdir(exist_ok=True)
    (venv / name).touch()
    os.utime(venv / name, (when, when))


def test_the_demo_installs_the_core_and_the_page_and_other_targets_everything(tmp_path):
    assert installed_by("demo", tmp_path / "venv") == ["page"]
    for target in ("setup", "test", "check", "bench"):
        assert installed_by(target, tmp_path / "venv") == ["dev"], target


def test_after_the_demo_tests_install_the_rest_and_after_the_tests_the_demo_installs_nothing(tmp_path):
    stamp(tmp_path / "venv", ".demo")
    assert (installed_by("demo", tmp_path / "venv"), installed_by("test", tmp_path / "venv")) == ([], ["dev"])
    stamp(tmp_path / "venv", ".ready")
    assert installed_by("demo", tmp_path / "venv") == installed_by("test", tmp_path / "venv") == []


def test_what_was_installed_before_the_needs_changed_is_installed_again(tmp_path):
    for name in (".demo", ".ready"):
        stamp(tmp_path / "venv", name, newer=False)
    assert installed_by("demo", tmp_path / "venv") == ["page"]
    assert installed_by("test", tmp_path / "venv") == ["dev"]
