"""Does progress name its stage, fit 80 columns, and do without a terminal?"""

from __future__ import annotations

import io

from rich.console import Console

from fogline.cli.run import short, status_line
from fogline.cli.terminal import bars, stages
from fogline.runs.config import RunStatus, Sizes


def test_without_a_terminal_each_stage_is_a_line(capsys):
    with stages("reading the rows") as report:
        for done in range(3):
            report("imputing", done, 3)
        report("batch 0: 5 rows", 0, 0)
        report("batch 1: 7 rows", 0, 0)
    assert capsys.readouterr().err.splitlines() == [
        "reading the rows",
        "imputing",
        "batch 0: 5 rows",
        "batch 1: 7 rows",
    ]


def test_the_line_of_a_batch_fits_80_columns_and_names_what_it_shows():
    status = RunStatus(batch=12_345, seconds=7.0, rows=2_500_000, rejected=12_345)
    status.sizes = {"[]": Sizes(40_000, 1_234, 0)}
    assert status_line(status) == "batch 12345: 2.5M rows, 357k/s, 1,234 in the answer, 12k rejected"
    rare = RunStatus(batch=1, seconds=1.0, rows=9, held=1, late=3, expired=2)
    assert status_line(rare).endswith("0 rejected, 1 held, 3 late, 2 expired")
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with bars(console) as shown:
        shown.add_task("starting Spark", total=None)
        shown.add_task(status_line(status), total=None)
        shown.add_task("discovering rules", total=4, completed=2)
        shown.add_task("x" * 200, total=None)
    lines = [line for line in _plain(out.getvalue()).splitlines() if line.strip()]
    assert all(len(line) <= 80 for line in lines)
    assert any("12k rejected" in line for line in lines)
    assert any("discovering rules" in line and "━" in line for line in lines)
    assert not any("━" in line for line in lines if "starting Spark" in line)


def _plain(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "\n")


def test_counts_are_short():
    assert [short(n) for n in (0, 9_999, 10_000, 999_999, 1e6, 25e6, 3.2e9)] == [
        "0", "9,999", "10k", "1000k", "1.0M", "25M", "3.2G",
    ]  # fmt: skip
