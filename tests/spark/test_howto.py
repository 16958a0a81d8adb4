"""Does the code of the how-to pages that need Spark run, and print what they show?"""

from __future__ import annotations

import os

import pytest

from tests.pages import DOCS, run_page


@pytest.mark.parametrize("page", ["alerts", "two-queries"])
def test_the_code_of_the_page_runs_and_prints_what_it_shows(page, tmp_path, spark, capsys, monkeypatch):
    text = (DOCS / "howto" / f"{page}.md").read_text(encoding="utf-8")
    for folder in ("readings", "alerts"):  # the JVM of the tests began elsewhere
        text = text.replace(f'"{folder}"', f'"{tmp_path}/{folder}"')
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    run_page(os.path.relpath(tmp_path / "page.md", DOCS), capsys)
