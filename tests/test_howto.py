"""Does the code of the how-to pages run, and print what they show?"""

from __future__ import annotations

import pytest

from tests.pages import run_page


@pytest.mark.slow
@pytest.mark.parametrize("page", ["one-line", "latest", "notebook", "limits"])
def test_the_code_of_the_page_runs_and_prints_what_it_shows(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(f"howto/{page}.md", capsys)
