"""How does a reader see within a minute what was measured and what came out?

On top the outcome in numbers and the circumstances; then a line per experiment; then each of them with the paper's
claim, what we read, the figures, and, folded away, the rows. One file: drawings and styles are part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lab.report.chapter import Chapter, Figure, Report, length, several
from lab.report.numbers import text
from lab.report.plot import inline
from lab.report.style import CSS

SIGNS = {"confirmed": "✓", "not confirmed": "✗", "differs": "≠", "beyond the paper": "+", "not read": "?"}
MEANINGS = {
    "confirmed": "the paper's claim is seen here too",
    "not confirmed": "the paper's claim is not seen here",
    "differs": "something else comes out, and the text gives the reason",
    "beyond the paper": "measured here only",
    "not read": "the rows at hand are not enough",
}
SHOWN = 300  # rows per table; the page is for reading


def render(report: Report) -> str:
    """The page."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Fogline: what the lab measured</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>",
            _top(report),
            _contents(report),
            *(_chapter(each) for each in report.chapters),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _top(report: Report) -> str:
    tiles = "".join(
        f'<li class="{_class(name)}"><b>{n}</b><span>{SIGNS[name]} {name}</span><small>{MEANINGS[name]}</small></li>'
        for name, n in report.verdicts.items()
    )
    facts = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in report.facts.items())
    return (
        "<header><h1>What the lab measured</h1>"
        f"<p>{len(report.chapters)} experiments on Fogline and its rivals: the evaluation of <i>Skyline Queries Over "
        "Incomplete Data Streams</i> (Ren, Lian, Ghazinour), done again on this system, and some beyond it. "
        "Every reading is worked out from the rows below it.</p>"
        f'{_warning(report)}<ul class="tiles">{tiles}</ul><dl class="facts">{facts}</dl></header>'
    )


def _warning(report: Report) -> str:
    warnings = []
    if report.quick:
        warnings.append(
            "A quick run: small windows, few points, short streams. It shows that all works; quote nothing."
        )
    if report.missing:
        warnings.append(f"Not measured: {escape(', '.join(report.missing))}.")
    if report.hungry:
        warnings.append(
            f"Left out, since they need real sets (<code>--data</code>): {escape(', '.join(report.hungry))}."
        )
    return "".join(f'<p class="warning">{each}</p>' for each in warnings)


def _contents(report: Report) -> str:
    rows = "".join(
        f'<tr><td>{_badge(each.verdict)}</td><td><a href="#{_id(each)}">{escape(each.experiment.title)}</a>'
        f"{_where(each)}</td><td><p>{escape(each.line)}</p></td></tr>"
        for each in report.chapters
    )
    return f'<nav><h2>At a glance</h2><div class="wide"><table class="contents">{rows}</table></div></nav>'


def _chapter(each: Chapter) -> str:
    about = each.experiment
    claim = f"<dt>The paper</dt><dd>{escape(about.claim)}</dd>" if about.claim else ""
    figures = "".join(_figure(figure) for figure in each.figures)
    return (
        f'<section id="{_id(each)}"><h2>{escape(about.title)}{_where(each)}</h2>'
        f'<p class="question">{escape(about.question)}</p>'
        f'<dl class="reading">{claim}<dt>Here</dt><dd>{_badge(each.verdict)} {escape(each.text)}</dd></dl>'
        f'<div class="figures">{figures}</div>{_rows(each)}</section>'
    )


def _figure(figure: Figure) -> str:
    many = ' class="many"' if figure.wide else ""
    if figure.svg:
        body = f'<div class="drawing">{inline(figure.svg)}</div>'
    else:
        body = "".join(
            (f"<h4>{escape(grid.title)}</h4>" if grid.title else "") + _table(grid.head, grid.body)
            for grid in figure.tables
        )
    return f"<figure{many}><figcaption>{escape(figure.plot.title)}</figcaption>{body}</figure>"


def _rows(each: Chapter) -> str:
    n, about = len(each.rows), each.experiment
    cut = f" The first {SHOWN} of them; all are in the results." if n > SHOWN else ""
    body = [[text(value) for value in row] for row in each.rows.head(SHOWN).itertuples(index=False)]
    return (
        f"<details><summary>{n:,} rows of {len(each.origins)} trials, {length(each.seconds)}, "
        f"source {escape(several(origin.source for origin in each.origins))}</summary>"
        f"<p>Again with <code>python -m lab run {escape(about.name)} --again</code>.{cut}</p>"
        f"{_table([str(name) for name in each.rows.columns], body)}</details>"
    )


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    numbers = [all(map(_number, column)) for column in zip(*body, strict=True)] or [False] * len(head)
    kinds = [" class=number" if each else "" for each in numbers]
    top = "".join(
        f"<th{kind}>{escape(name).replace('+', '+<wbr>')}</th>"  # a pair may be cut at its joint
        for name, kind in zip(head, kinds, strict=True)
    )
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(value)}</td>" for value, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in body
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div>'


def _number(value: str) -> bool:
    """Also where there is none."""
    return value == "–" or value.lstrip("-")[:1].isdigit()


def _badge(verdict: str) -> str:
    return f'<span class="badge {_class(verdict)}">{SIGNS[verdict]} {verdict}</span>'


def _where(each: Chapter) -> str:
    """The figure of the paper, unless the badge already shows that there is none."""
    figure = each.experiment.figure
    return "" if figure == each.verdict else f"<small>{escape(figure)}</small>"


def _class(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _id(each: Chapter) -> str:
    return escape(each.experiment.name, quote=True)
