"""How was the picture in the README made?

    python docs/picture.py

The demo's own frame, after the ticks that a few seconds of watching bring.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fogline.demo import Plan
from fogline.demo.screen import frame
from fogline.demo.watch import Watch

plan, width, height = Plan(), 100, 30
watch = Watch(plan.sensors, plan.seed, plan.alpha)
for _ in range(140):
    watch.tick()
console = Console(record=True, width=width, height=height, force_terminal=True, color_system="truecolor")
console.print(frame(watch, width, height))
console.save_svg(str(Path(__file__).with_name("demo.svg")), title="fogline demo")
