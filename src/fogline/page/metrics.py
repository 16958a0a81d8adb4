"""How is a run doing, in the words of Prometheus?

https://prometheus.io/docs/instrumenting/exposition_formats: a line with the kind of each metric, then its values.
"""

from __future__ import annotations

from fogline.page.hub import Hub
from fogline.page.state import State

TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOTALS = {
    "batches": "batches that the run has finished",
    "rows": "rows that came",
    "incomplete": "rows that came with a gap",
    "rejected": "rows that could not be taken",
    "late": "rows behind the clock of their group",
    "expired": "rows that had expired before they could enter",
}


def written(state: State | None, hub: Hub) -> str:
    """All metrics, as text."""
    lines = _metric("fogline_page_viewers", "gauge", "browsers that watch the page", {"": len(hub.queues)})
    lines += _metric("fogline_page_update_seconds", "gauge", "what the last update took the page", {"": hub.seconds})
    lines += _metric("fogline_up", "gauge", "whether there is a run to be read", {"": int(state is not None)})
    if state is None or not state.history.points:
        return "\n".join(lines) + "\n"
    totals, last = state.history.totals(), state.history.points[-1]
    for name, help_text in TOTALS.items():
        lines += _metric(f"fogline_{name}_total", "counter", help_text, {"": totals[name]})
    kinds = {f'{{change="{name}"}}': totals[name] for name in ("enter", "leave", "update")}
    lines += _metric("fogline_changes_total", "counter", "changes of the answer", kinds)
    now = {
        "batch": ("number of the last batch", last.batch),
        "batch_seconds": ("what the last batch took", last.seconds / last.batches),
        "batch_rows": ("rows of the last batch", last.rows),
        "live_rows": ("rows that can still matter", last.live),
        "answer_rows": ("rows in the answer", last.answer),
        "waiting_rows": ("rows that wait, because of lateness", last.waiting),
        "held_rows": ("rows that are held, because they run ahead", last.held),
        "alarms": ("groups that are near a limit, or beyond it", state.alarms),
    }
    for name, (help_text, value) in now.items():
        lines += _metric(f"fogline_{name}", "gauge", help_text, {"": value})
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, help_text: str, values: dict[str, float]) -> list[str]:
    """The lines of one metric; values by their labels."""
    return [
        f"# HELP {name} {help_text}",
        f"# TYPE {name} {kind}",
        *(f"{name}{k} {_number(v)}" for k, v in values.items()),
    ]


def _number(value: float) -> str:
    """All digits of it.

    >>> _number(12_345_678), _number(0.25)
    ('12345678', '0.25')
    """
    return str(value) if isinstance(value, int) else repr(float(value))
