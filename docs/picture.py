"""How was the picture in the README made?

    python docs/picture.py

The demo's own frame, after the ticks that some seconds of watching bring. Without Spark: the same rows through a
Monitor give the same changes. Only how long a batch takes cannot be known here, so the picture does not say.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fogline.demo import Plan
from fogline.demo.display import frame
from fogline.demo.engine import Embedded
from fogline.demo.room import earlier_shift
from fogline.demo.shift import Shift, question
from fogline.demo.watch import Watch

plan, width, height, parcels = Plan(), 100, 30, 34
query, engine, watch = question(plan.alpha), Embedded(), Watch(plan.sensors, plan.alpha)
repository = engine.learn(earlier_shift(plan.sensors, plan.seed), query)
shift = Shift(plan.sensors, plan.seed, query, repository)
engine.start(query, repository, at_once=None)
for ticks in plan.parcels[:parcels]:
    rows, heard = shift.next(ticks)
    engine.send(rows)
    watch.hear(heard)
    told = engine.told(0.0)
    assert told is not None
    watch.follow(told)
    watch.times.clear()
console = Console(record=True, width=width, height=height, force_terminal=True, color_system="truecolor")
console.print(frame(watch, width, height))
console.save_svg(str(Path(__file__).with_name("demo.svg")), title="fogline demo")
