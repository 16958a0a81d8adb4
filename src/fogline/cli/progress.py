"""How far is it, on a terminal and without one?

On a terminal each stage is a line that fits its width: a spinner or a tick, what is being done, a bar where it is known
how much there is to do, and the time it has taken. Without one there is a line of text for each stage and each batch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

Report = Callable[[str, int, int], None]  # what is being done, how much of it is done, and of how much; 0: not known
BAR = 20  # columns


@contextmanager
def stages(first: str) -> Iterator[Report]:
    """A function to report stages to; `first` is the one that begins now."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines(first)
        return
    with bars(console) as shown:
        bar = shown.add_task(first, total=None)

        def report(what: str, done: int, of: int) -> None:
            """The next stage gets a line of its own; what has no end (of 0) only changes its words."""
            nonlocal bar
            last = shown.tasks[-1]
            if last.description != what:
                if of == 0 and last.fields.get("endless"):
                    shown.update(bar, description=what)
                else:
                    shown.update(bar, total=1, completed=1)
                    shown.stop_task(bar)
                    bar = shown.add_task(what, total=None, endless=of == 0)
            shown.update(bar, total=of or None, completed=done)

        yield report
        shown.update(bar, total=1, completed=1)


def lines(first: str) -> Report:
    """Stages as lines on stderr, each once."""
    print(first, file=sys.stderr, flush=True)
    last = first

    def report(what: str, done: int, of: int) -> None:
        nonlocal last
        if what != last:
            print(what, file=sys.stderr, flush=True)
            last = what

    return report


class Stage(ProgressColumn):
    """What is being done, as far as there is room, and a bar while it is known how much there is to do.

    The words may hold names from the data, which are no markup.
    """

    def __init__(self) -> None:
        super().__init__(Column(ratio=1, no_wrap=True))
        self.bar = BarColumn(bar_width=BAR)

    def render(self, task: Task) -> RenderableType:
        words = Text(task.description, no_wrap=True, overflow="ellipsis")
        if not task.total or task.finished:
            return words
        both = Table.grid(Column(ratio=1), Column(width=BAR), padding=(0, 1), expand=True)
        both.add_row(words, self.bar.render(task))
        return both


def bars(console: Console) -> Progress:
    """Lines for what takes long."""
    return Progress(SpinnerColumn(finished_text="✓"), Stage(), TimeElapsedColumn(), console=console, expand=True)
