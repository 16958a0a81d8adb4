"""How were the pictures of the page made?

    python docs/screenshots.py

The demo's mine, some minutes into the shift, as a run with --explain has written it; in Debian's Chromium, at the
width of a desk and of a phone, dark and light. With names of pictures as arguments, only these; --keep FOLDER writes
the run there and uses it again.
"""

from __future__ import annotations

import argparse
import shutil
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from fogline.demo import DemoOptions
from fogline.demo.control_room import earlier_shift
from fogline.demo.output_engine import OutputEngine
from fogline.demo.shift import Shift, question
from fogline.page.serving import beside

HERE = Path(__file__).parent
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
DESK, PHONE = {"width": 1440, "height": 1180}, {"width": 390, "height": 844}
PICTURES = {
    "page-light": (DESK, "light", False),
    "page-dark": (DESK, "dark", False),
    "page-why": (DESK, "light", True),
    "page-phone-light": (PHONE, "light", False),
    "page-phone-dark": (PHONE, "dark", True),
}
PARCELS = 34


def write(output: Path) -> None:
    """A run of the demo's mine."""
    options, engine = DemoOptions(), OutputEngine(output)
    query = question(options.alpha)
    repository = engine.learn(earlier_shift(options.sensors, options.seed), query)
    shift = Shift(options.sensors, options.seed, query, repository)
    for ticks in options.parcels[:PARCELS]:
        engine.send(shift.next(ticks)[0])
    engine.start(query, repository, at_once=1)
    while engine.batch < PARCELS - 1:
        engine.poll(0.0)
    engine.stop()


def take(page: Page, address: str, name: str, why: bool) -> None:
    """One picture."""
    page.goto(address)
    page.locator("#rows tr[data-index]").first.wait_for()
    page.locator("#check .sentence").wait_for()
    page.wait_for_timeout(1500)
    if why:
        gaps = page.locator("#rows tr:has(.front.likely):has(.gap)")
        (gaps if gaps.count() else page.locator("#rows tr[data-index]")).first.click()
        page.locator("#why .sentence").wait_for()
        page.wait_for_timeout(500)
    picture = Image.open(BytesIO(page.screenshot()))
    picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(HERE / f"{name}.png", optimize=True)


def main() -> None:
    """Write a run, and take the pictures."""
    parser = argparse.ArgumentParser(description="Pictures of the page.")
    parser.add_argument("names", nargs="*", default=list(PICTURES))
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        output = (asked.keep or Path(folder)) / "mine"
        if not output.exists():
            write(output)
        with beside(str(output), port=0) as address, sync_playwright() as playwright:
            found = shutil.which("chromium") or shutil.which("chromium-browser")
            browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
            for name in asked.names:
                size, scheme, why = PICTURES[name]
                context = browser.new_context(viewport=size, color_scheme=scheme)
                take(context.new_page(), address, name, why)
                context.close()
            browser.close()


if __name__ == "__main__":
    main()
