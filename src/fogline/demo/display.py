"""What is on the screen?

One frame: the clock, where in the mine the answer lies, the answer itself, counters, and the latest changes. It fits
into the terminal it is given: a small one shows fewer rows, never half a row.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from math import isnan, nan

from rich import box
from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from fogline.demo.comparison import FOGLINE
from fogline.demo.mine import DECIMALS, GALLERIES, gallery_of
from fogline.demo.view import SAMPLE_EVERY, AnswerChange, MineView

HEADS = {"temp °C": 7, "CH₄ %": 9, "dust mg": 7, "O₂ %": 11}  # and the room for a range, so that columns stay put
CHANGE_STYLE = {"enter": ("▲", "red"), "leave": ("▼", "green"), "update": ("·", "yellow")}
WIDE = 100  # columns from which there is room for more air and words
MOST_ROWS = 20


def frame(view: MineView, width: int, height: int, page: str | None = None) -> RenderableType:
    """Everything, in fewer than `height` lines; `page`: where a browser shows it."""
    spare = max(height - 9 - (page is not None), 2)  # lines that are neither heading nor counter
    rows = min(spare - spare // 4, MOST_ROWS)
    latest = list(view.recent)[::-1]
    return Group(
        title(view, width),
        *([] if page is None else [Text(f" in a browser, with why and what to check: {page}", "bold cyan")]),
        map_of(view, width),
        answer(view, rows, width),
        counters(view),
        Rule("changes  [dim](above, ? is a missing value and where it may lie)[/]", align="left", style="dim"),
        *(headline(each) for each in latest[: spare - rows]),
    )


def title(view: MineView, width: int) -> RenderableType:
    """What this is, and the mine's clock."""
    line = Table.grid(expand=True)
    line.add_column(no_wrap=True)
    line.add_column(justify="right", no_wrap=True)
    asked = "which sensors are worst now?" if view.latest else "which places are beaten by none?"
    more = f": {asked}" if width >= WIDE else ""
    left = Text.assemble((" Fogline ", "bold reverse"), f" a simulated coal mine with failing sensors{more}")
    line.add_row(left, Text(f"{view.now:%H:%M:%S} ", "bold"))
    return line


def map_of(view: MineView, width: int) -> RenderableType:
    """The ring of galleries, and how many of the answer are in each."""
    found = Counter(gallery_of(sensor) for sensor in view.answer)
    line = _even_columns(len(GALLERIES))
    line.add_row(*(Text(name, _alarm(found[name])) for name in GALLERIES))
    line.add_row(*(Text("■" * min(found[name], width // len(GALLERIES) - 1), "red") for name in GALLERIES))
    return line


def answer(view: MineView, lines: int, width: int) -> RenderableType:
    """The likeliest members of the answer; of equally likely ones, those that are in for the longest."""
    table = Table(box=box.SIMPLE_HEAD, expand=True, show_edge=False, padding=(0, int(width >= WIDE)), pad_edge=False)
    for head in ("sensor", "gallery", "probability", ""):
        table.add_column(head, no_wrap=True)
    for head, room in {**HEADS, "in for": 6}.items():
        table.add_column(head, no_wrap=True, justify="right", min_width=room)
    order = sorted(view.answer.items(), key=lambda item: (-item[1], view.since[item[0]], item[0]))
    for sensor, probability in order[:lines]:
        values = (cell(*each) for each in zip(*view.cells(sensor), DECIMALS, strict=True))
        bar = Bar(1.0, 0.0, probability, width=max(width // 4 - 10, 5), color="red" if probability > 0.9 else "yellow")
        stay = _clock(view.now - view.since[sensor])
        table.add_row(Text(sensor), gallery_of(sensor), bar, f"{probability:.2f}", *values, stay)
    for _ in range(lines - len(order)):
        table.add_row()
    return table


def cell(known: float, low: float, high: float, places: int) -> Text:
    """A number, or a question mark and the range (less precisely) in which the value may be."""
    if not isnan(known):
        return Text(f"{known:.{places}f}")
    least, most = f"{low:.{places - 1}f}", f"{high:.{places - 1}f}"
    return Text(f"? {least}–{most}" if least != most else f"? {least}", "yellow")


def counters(view: MineView) -> RenderableType:
    """How much there was to do, and how long it took."""
    facts = {
        "ticks": view.ticks,
        "rows": view.rows,
        "missing": view.missing,
        "in window": view.window,
        "live set": view.live,
        "answer": len(view.members),
        "ms a batch": round(view.median_ms) if view.times else None,
    }
    grid = _even_columns(len(facts))
    grid.add_row(*(Text("–" if value is None else f"{value:,}", "bold cyan") for value in facts.values()))
    grid.add_row(*(Text(label, "cyan") for label in facts))
    return grid


def headline(change: AnswerChange) -> Text:
    """One line about a change."""
    sign, style = CHANGE_STYLE[change.what]
    was, now = ("" if each is None else f"{each:.2f}" for each in (change.before, change.after))
    odds = f"{was} → {now}" if was and now else was or now
    place = f"{change.sensor:6}{gallery_of(change.sensor):8}"
    line = f"{change.when:%H:%M:%S}  {sign} {change.what:8}{place}{odds:12}  {reason(change)}"
    return Text(line.rstrip(), style, no_wrap=True, overflow="ellipsis")


def reason(change: AnswerChange) -> str:
    """Why it left; or what is not known of it."""
    heads = list(HEADS)
    lost = (f"{heads[j].split()[0]} {cell(nan, low, high, DECIMALS[j])}" for j, low, high in change.gaps)
    return change.why or ", ".join(lost)


def _even_columns(count: int) -> Table:
    grid = Table.grid(expand=True)
    for _ in range(count):
        grid.add_column(justify="center", no_wrap=True, ratio=1)
    return grid


def _alarm(members: int) -> str:
    return "bold red" if members > 2 else "yellow" if members else "dim"


def _clock(length: timedelta) -> str:
    minutes, seconds = divmod(int(length.total_seconds()), 60)
    return f"{minutes}:{seconds:02d}"


def line(view: MineView) -> Text:
    """The state of things in one line, for a log: how large everything is, and where the answer lies."""
    found = Counter(gallery_of(sensor) for sensor in view.answer)
    places = ", ".join(f"{name} {found[name]}" for name in GALLERIES if found[name])
    sizes = f"window {view.window:,}  live {view.live:,}  answer {len(view.members):,}"
    return Text(f"{view.now:%H:%M:%S}  {sizes}: {places}")


def summary(view: MineView) -> RenderableType:
    """What was done, and how near each way of asking came to the truth."""
    if not view.ticks:
        return Text("Stopped before the first tick.")
    share = f"{view.incomplete / max(view.rows, 1):.0%}"
    rows = f"rows {view.rows:,} · missing cells {view.missing:,} (in {share} of the rows)"
    ticks = f"ticks {view.ticks:,} · batches {len(view.times):,}, {view.median_ms:,.0f} ms each (median)"
    sampled = f"every {SAMPLE_EVERY}th tick, {view.comparison.samples:,} in all"
    return Group(
        Text(f"{rows} · {ticks}\n"),
        comparison(view),
        Text(f"\nThe simulation knows the missing values: compared at {sampled}.", "dim"),
        Text("A lower --alpha overlooks less, a higher one is surer of what it answers.", "dim"),
    )


def comparison(view: MineView) -> Table:
    """Fogline and the plain ways, side by side."""
    table = Table("held against the true skyline", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for head in ("precision", "recall", "F1"):
        table.add_column(head, justify="right")
    for name, count in view.comparison.counts.items():
        figures = ("–" if isnan(each) else f"{each:.2f}" for each in (count.precision, count.recall, count.f1))
        if name == FOGLINE:
            table.add_row(f"{name}, probability > {view.alpha:g}", *figures, style="bold")
        else:
            table.add_row(name, *figures)
    return table
