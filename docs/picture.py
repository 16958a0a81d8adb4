"""How was the picture in the README made?

    python docs/picture.py

The demo's own frame, after the ticks of some seconds, and why the least likely place is in. Without Spark: the same
rows through a Monitor give the same changes. Only how long a batch takes cannot be known here, and is not in the
picture.
"""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fogline.demo import DemoOptions
from fogline.demo.control_room import earlier_shift
from fogline.demo.display import frame
from fogline.demo.engine import EmbeddedEngine
from fogline.demo.shift import Shift, question
from fogline.demo.view import MineView

options, width, height, parcels = DemoOptions(), 100, 22, 38
query, engine, view = question(options.alpha), EmbeddedEngine(), MineView(options.sensors, options.alpha)
repository = engine.learn(earlier_shift(options.sensors, options.seed), query)
shift = Shift(options.sensors, options.seed, query, repository)
engine.start(query, repository, at_once=None)
for ticks in options.parcels[:parcels]:
    rows, happened = shift.next(ticks)
    engine.send(rows)
    view.expect(happened)
    report = engine.poll(0.0)
    assert report is not None
    view.follow(report)
    view.times.clear()
console = Console(record=True, width=width, height=height, force_terminal=True, color_system="truecolor")
console.print(frame(view, width, height))
monitor = engine.monitor
assert monitor is not None
unsure = min(
    (row for row in monitor.answer().to_pylist() if row["certainty"] == "likely"), key=lambda row: row["probability"]
)
for asked, answered in {
    f"monitor.explain({unsure['id']!r})[0].sentence": monitor.explain(unsure["id"])[0].sentence,
    'monitor.ask_next(1)["sentence"][0]': monitor.ask_next(1)["sentence"][0].as_py(),
}.items():
    console.print(Text.assemble((">>> ", "bold cyan"), (asked, "bold")))
    console.print(Text(answered, "yellow"), width=width)
picture = console.export_svg(title="fogline demo")
picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # fonts of another host
Path(__file__).with_name("demo.svg").write_text(picture, encoding="utf-8")
