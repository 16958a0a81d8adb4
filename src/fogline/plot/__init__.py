"""How does an answer look, how did it come about, and where are the gaps? As charts of Altair (extra `plot`).

    fl.plot.front(monitor)           two attributes: members, near rows, and whiskers where a value is missing
    fl.plot.timeline(changes)        who was in, from when to when, how probably, and why it left
    fl.plot.gaps(rows, query)        which values are missing; of a monitor: what they may be

Every chart can be shown in a notebook, saved (`chart.save("front.html")`), and changed as any chart of Altair.
Colours are those of Okabe and Ito, and never the only sign.
"""

from typing import TYPE_CHECKING

from fogline.face import offer

if TYPE_CHECKING:
    from fogline.plot.front import front
    from fogline.plot.gaps import gaps
    from fogline.plot.timeline import timeline

__all__ = ["front", "gaps", "timeline"]

offer(__name__, {"front": ("front",), "gaps": ("gaps",), "timeline": ("timeline",)})
