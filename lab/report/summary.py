"""What came out, in Markdown: the same as the page, without the rows, for a repository or a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.report.chapter import Chapter, Report


def render(report: Report) -> str:
    """The summary; plots are linked as files beside it."""
    return "\n".join([*_top(report), *(line for each in report.chapters for line in _chapter(each))]) + "\n"


def _top(report: Report) -> Iterator[str]:
    yield "# What the lab measured\n"
    if report.quick:
        yield "**A quick run: it shows that everything works; quote nothing.**\n"
    yield f"{report.line}.\n"
    if report.missing:
        yield f"Not measured: {', '.join(report.missing)}.\n"
    if report.hungry:
        yield f"Left out, since they need real sets (`--data`): {', '.join(report.hungry)}.\n"
    for name, value in report.facts.items():
        yield f"- {name}: {f'`{value}`' if name == 'Command' else value}"
    yield ""
    yield from table(
        ["experiment", "figure", "verdict", "reading"],
        [[_link(each), each.experiment.figure, each.verdict, each.line] for each in report.chapters],
    )


def _chapter(each: Chapter) -> Iterator[str]:
    about = each.experiment
    yield f'\n<a id="{about.name}"></a>\n\n## {about.title}\n'
    yield f"{about.figure}. {about.question}\n"
    if about.claim:
        yield f"The paper: {about.claim}\n"
    yield f"**{each.verdict[:1].upper()}{each.verdict[1:]}.** {each.text}\n"
    files = {id(figure): name for name, figure in each.pictures()}
    for figure in each.figures:
        if figure.svg:
            yield f"![{figure.plot.title}](plots/{files[id(figure)]})\n"
        for grid in figure.tables:
            yield f"{figure.plot.title}{f': {grid.title}' if grid.title else ''}\n"
            yield from table(grid.head, grid.body)
            yield ""


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    """
    >>> print(*table(["a", "b"], [["1", "x|y"]]), sep="\\n")
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    yield f"| {' | '.join(map(_safe, head))} |"
    yield f"|{'---|' * len(head)}"
    for row in body:
        yield f"| {' | '.join(map(_safe, row))} |"


def _link(each: Chapter) -> str:
    return f"[{each.experiment.title}](#{each.experiment.name})"


def _safe(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")
