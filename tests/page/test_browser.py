"""Does the page show, in a real browser, what a run writes, as it writes it?

One browser for all tests, on Debian's Chromium. What a page asks of any other host, and what its content security
policy refuses, fails the test that it happens in.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

import fogline as fl
from fogline.page.serving import beside
from fogline.rows.names import Kinds
from tests.page.writing import HOSTILE, Writer, cell, enter, leave, near, small

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Watched:
    """A page, and what must not happen on it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.wrong: list[str] = []
        page.on("request", lambda asked: None if asked.url.startswith(address) else self.wrong.append(asked.url))
        page.on("console", lambda text: self.wrong.append(text.text) if text.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: self.wrong.append(f"a dialog: {dialog.message}"))
        page.goto(address)

    def ids(self) -> list[str]:
        return self.page.locator("#rows td.id").all_inner_texts()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def watched(chromium: Browser, out: Path) -> Iterator[Watched]:
    with beside(str(out), port=0) as address:
        context = chromium.new_context(viewport={"width": 1400, "height": 1000}, color_scheme="dark")
        page = context.new_page()
        page.set_default_timeout(20_000)
        seen = Watched(page, address)
        yield seen
        context.close()
    assert seen.wrong == []


def rows(page: Page) -> Locator:
    return page.locator("#rows tr[data-index]")


def test_the_page_waits_shows_updates_and_goes_back_in_time(watched: Watched, out: Path) -> None:
    page = watched.page
    expect(page.locator("#waiting-title")).to_have_text("No run yet")
    run = small(out)
    expect(rows(page)).to_have_count(2)
    assert watched.ids() == ["a", HOSTILE]
    expect(page.locator("#status")).to_have_text("● live")
    run.batch(4, [enter("d", 4, 0.9, heat=33.0, air=21.0)])
    expect(rows(page)).to_have_count(3)  # by an event
    assert watched.ids() == ["a", "d", HOSTILE]
    page.locator("#slider").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#status")).to_contain_text("in the past")
    expect(page.locator("#moment")).to_contain_text("batch 1")
    expect(rows(page)).to_have_count(3)
    assert watched.ids() == ["a", HOSTILE, "b"]
    run.batch(5, [leave("d", 4, heat=33.0, air=21.0)])
    expect(page.locator("#status")).to_contain_text("1 new")
    assert watched.ids() == ["a", HOSTILE, "b"]
    page.locator("#live").click()
    expect(page.locator("#status")).to_have_text("● live")
    expect(rows(page)).to_have_count(2)
    page.locator("#pause").click()
    run.batch(6, [enter("e", 6, 0.9, heat=33.0, air=21.0)])
    expect(page.locator("#status")).to_contain_text("paused, 1 new")
    assert watched.ids() == ["a", HOSTILE]
    page.locator("#pause").click()
    expect(rows(page)).to_have_count(3)


def test_a_click_or_a_key_shows_why_and_hostile_texts_stay_texts(watched: Watched, out: Path) -> None:
    small(out)
    page = watched.page
    expect(rows(page)).to_have_count(2)
    rows(page).nth(1).click()
    why = page.locator("#why")
    expect(why.locator(".sentence")).to_have_text(f"{HOSTILE} is in since no row surely beats it.")
    expect(why.locator("h2")).to_have_text(HOSTILE)
    expect(why).to_contain_text("rival [/x]")
    expect(why).to_contain_text("air(1) -> heat(2), 12 rows of history")
    expect(why).to_contain_text("7.5 or less")
    assert page.locator("img[src=x]").count() == 0
    page.keyboard.press("Escape")
    expect(why).to_be_hidden()
    rows(page).nth(0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(why.locator("h2")).to_have_text(HOSTILE)
    page.keyboard.press("Escape")
    expect(rows(page).nth(1)).to_be_focused()
    expect(page.locator("#check")).to_contain_text(f"Measure heat of {HOSTILE}: 1.5 rows")
    expect(page.locator("#rows .gap").first).to_have_text("gap 20 … 34")
    page.locator("#possible").check()
    expect(rows(page)).to_have_count(3)
    expect(rows(page).nth(2).locator(".front")).to_have_text("○ possible")
    page.locator("#search").fill("iMg")
    expect(rows(page)).to_have_count(1)
    assert watched.ids() == [HOSTILE]


def test_the_table_sorts_by_any_column_and_draws_only_what_is_seen(watched: Watched, out: Path) -> None:
    run = Writer(out)
    many = [
        enter(f"s{k}", 1, 0.5 + k / 10_000, heat=float((k * 7919) % 5000), air=None if k % 3 else 1.0)
        for k in range(5000)
    ]
    run.batch(
        1,
        many,
        [near("s4999", 1, 0.99, True, heat=(1.0, 1.0, 1.0), air=(None, 1.0, 2.0))],
        [cell("s1", 1, "air", 1.0, 0.0, 2.0)],
    )
    page = watched.page
    expect(page.locator("#count")).to_contain_text("5,000 rows")
    assert rows(page).count() < 60
    assert watched.ids()[0] == "s4999"
    page.locator("#heads button", has_text="heat").click()
    expect(page.locator("#heads th", has_text="heat")).to_have_attribute("aria-sort", "descending")
    first = rows(page).nth(0).locator("td.value").nth(0)
    expect(first).to_have_text("4999")
    page.locator("#heads button", has_text="heat").click()
    expect(first).to_have_text("0")
    page.locator("#heads button", has_text="sensor").click()
    expect(rows(page).nth(2).locator("td.id")).to_have_text("s2")
    rows(page).nth(0).focus()
    page.keyboard.press("End")
    expect(page.locator("#rows tr:focus td.id")).to_have_text("s4999")
    expect(page.locator("#table")).to_have_attribute("aria-rowcount", "5001")


def test_a_row_shows_the_columns_that_the_query_keeps(watched: Watched, out: Path) -> None:
    query = fl.Query({"heat": "max", "air": "min"}, id="sensor", time="t", latest=True, keep=["room", "floor"])
    kept = (("room", pa.string()), ("floor", pa.int64()))
    run = Writer(out, query, Kinds(pa.int64(), pa.string(), kept=kept), explain=False)
    lower = leave("a", 1, reason="replaced", heat=30.0) | {"beaten_by": "b", "beaten_by_time": 1}
    run.batch(1, [_plainly(enter("a", 1, 1.0, heat=30.0)) | {"room": HOSTILE, "floor": 3}])
    run.batch(2, [lower | {"room": HOSTILE}, _plainly(enter("b", 2, 1.0, heat=31.0)) | {"room": "lab", "floor": None}])
    page = watched.page
    expect(rows(page)).to_have_count(1)
    expect(page.locator("#log")).to_contain_text("replaced, and b beats its new row")
    rows(page).nth(0).click()
    expect(page.locator("#why")).to_contain_text("Other columns")
    expect(page.locator("#why")).to_contain_text("lab")


def _plainly(change: dict[str, Any]) -> dict[str, Any]:
    """As a run without --explain reports it."""
    return {name: each for name, each in change.items() if name != "why"}


def test_without_explanations_the_page_states_the_command(watched: Watched, out: Path) -> None:
    run = Writer(out, explain=False)
    run.batch(1, [enter("a", 1, 1.0, heat=1.0, air=1.0)])
    page = watched.page
    expect(page.locator("#next")).to_contain_text("--explain")
    rows(page).nth(0).click()
    expect(page.locator("#why")).to_contain_text("needs a run that explains its rows")
    expect(page.locator("#rows .front")).to_have_text("● certain")


def test_a_phone_sees_all_of_it_in_the_colours_that_it_asks_for(watched: Watched, out: Path) -> None:
    small(out)
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 844})
    expect(rows(page)).to_have_count(2)
    look: dict[str, Any] = page.evaluate(
        "() => ({wide: document.documentElement.scrollWidth, dark: getComputedStyle(document.body).backgroundColor})"
    )
    assert look == {"wide": 390, "dark": "rgb(14, 19, 24)"}
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(238, 241, 244)"
    rows(page).nth(0).click()
    box = page.locator("#why").bounding_box()
    assert box is not None
    assert (box["x"], box["width"]) == (0, 390)


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("+02:00", ("14:00:00", "2024-05-02 00:30:00 +02:00 · batch 1")),
        ("Europe/Berlin", ("14:00:00", "2024-05-02 00:30:00 Europe/Berlin · batch 1")),
        ("-09:30", ("02:30:00", "13:00:00 -09:30 · batch 1")),
        ("", ("12:00:00", "22:30:00 · batch 1")),
    ],
)
def test_times_are_shown_in_the_zone_of_the_stream(
    watched: Watched, out: Path, zone: str, shown: tuple[str, str]
) -> None:
    kind = pa.timestamp("us", "UTC")
    query = fl.Query(attributes={"heat": "max", "air": "min"}, id="sensor", time="t", lifetime="1 day")
    run = Writer(out, query, Kinds(kind, pa.string(), ()), zone=zone)
    noon, late = (pa.scalar(hour * 3_600_000_000, pa.int64()).cast(kind).as_py() for hour in (476_268, 476_278.5))
    run.batch(noon, [enter("a", noon, 0.9, heat=33.0, air=21.0)])
    run.batch(late, [])
    expect(watched.page.locator("#moment")).to_contain_text(shown[1])
    expect(rows(watched.page).first).to_contain_text(shown[0])
