"""How does a reader see within a minute what was measured and what came out?

The page (`html`): on top the outcome in numbers and the circumstances, then a line per experiment, then each of them
with the paper's claim, what we read, the figures, and, folded away, the rows. It is one file; drawings and styles are
part of it.

The summary (`markdown`) holds the same without the rows, for a repository or a message; its plots are files beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from lab.bench import length
from lab.report.chapter import Chapter, Figure, Report, several
from lab.report.plot import inline, text

SIGNS = {"holds": "✓", "fails here": "✗", "flatter or faster": "≠", "beyond the paper": "+", "not read": "?"}
MEANINGS = {
    "holds": "claims of the paper that are seen here too",
    "fails here": "claims that are not seen here, with the reason",
    "flatter or faster": "claims that come out otherwise for a reason of ours",
    "beyond the paper": "experiments that the paper does not have",
    "not read": "the rows at hand are not enough",
}
SHOWN = 300  # rows per table; the page is for reading


def html(report: Report) -> str:
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
        f"{_claims(each)}"
        f'<div class="figures">{figures}</div>{_rows(each)}</section>'
    )


def _claims(each: Chapter) -> str:
    """Claim by claim, where the paper makes several."""
    lines = "".join(
        f"<li>{_badge(found.verdict)} {escape(found.claim)}{escape(f': {found.reason}' if found.reason else '')}.</li>"
        for found in each.findings
    )
    return f'<ul class="claims">{lines}</ul>' if lines else ""


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


# ------------------------------------------------------------------------------------------------------------- Markdown


def markdown(report: Report) -> str:
    """The summary; plots are linked as files beside it."""
    return (
        "\n".join([*_markdown_top(report), *(line for each in report.chapters for line in _markdown_chapter(each))])
        + "\n"
    )


def _markdown_top(report: Report) -> Iterator[str]:
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
        [[_markdown_link(each), each.experiment.figure, each.verdict, each.line] for each in report.chapters],
    )


def _markdown_chapter(each: Chapter) -> Iterator[str]:
    about = each.experiment
    yield f'\n<a id="{about.name}"></a>\n\n## {about.title}\n'
    yield f"{about.figure}. {about.question}\n"
    if about.claim:
        yield f"The paper: {about.claim}\n"
    yield f"**{each.verdict[:1].upper()}{each.verdict[1:]}.** {each.text}\n"
    for found in each.findings:
        yield f"- {found.claim}: **{found.verdict}**{f'; {found.reason}' if found.reason else ''}."
    if each.findings:
        yield ""
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


def _markdown_link(each: Chapter) -> str:
    return f"[{each.experiment.title}](#{each.experiment.name})"


def _safe(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")


# ------------------------------- how the page looks: quiet, in the reader's own font, light or dark, and on a telephone


CSS = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --paper: #ffffff; --line: #d1d9e0; --wash: #f6f8fa;
  --good: #1a7f37; --bad: #cf222e; --other: #9a6700; --more: #0969da; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --line: #3d444d; --wash: #151b23;
    --good: #3fb950; --bad: #f85149; --other: #d29922; --more: #4493f8; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .3rem; }
h4 { margin: .8rem 0 .2rem; }
h2 small { font-weight: normal; font-size: .9rem; color: var(--soft); margin-left: .6rem; }
a { color: var(--more); text-decoration: none; } a:hover { text-decoration: underline; }
code { font: .9em ui-monospace, monospace; background: var(--wash); padding: .1em .3em; border-radius: 4px; }
.warning { border-left: 4px solid var(--other); background: var(--wash); padding: .5rem .8rem; }
.tiles { list-style: none; padding: 0; margin: 1.2rem 0; display: grid; gap: .7rem;
  grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); }
.tiles li { border: 1px solid var(--line); border-top: 4px solid var(--tone); border-radius: 6px;
  padding: .5rem .8rem; }
.tiles b { display: block; font-size: 2rem; line-height: 1.1; color: var(--tone); }
.tiles span { display: block; font-weight: 600; } .tiles small { color: var(--soft); line-height: 1.3; display: block; }
.holds { --tone: var(--good); } .fails-here { --tone: var(--bad); } .flatter-or-faster { --tone: var(--other); }
.beyond-the-paper { --tone: var(--more); } .not-read { --tone: var(--soft); }
.badge { color: var(--tone); border: 1px solid var(--tone); border-radius: 1em; padding: .05em .6em; font-size: .8rem;
  font-weight: 600; white-space: nowrap; display: inline-block; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
.facts { font-size: .88rem; border-top: 1px solid var(--line); padding-top: .8rem; }
nav { margin: 2.5rem 0; }
section { border-top: 1px solid var(--line); padding-top: 1.5rem; margin-top: 2.5rem; }
.question { color: var(--soft); font-style: italic; margin: 0; }
.figures { display: grid; gap: 1.2rem; margin: 1rem 0; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); }
figure { margin: 0; min-width: 0; } figure.many, figure:only-child { grid-column: 1 / -1; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
.drawing { overflow-x: auto; } .drawing svg { display: block; max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { vertical-align: bottom; } .number { text-align: right; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.contents { width: 100%; font-size: .95rem; } .contents small { display: block; color: var(--soft); }
.contents p { margin: 0; display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; }
.contents td:first-child { width: 11rem; padding-left: 0; } .contents td:nth-child(2) { width: 18rem; }
details { margin-top: .6rem; font-size: .9rem; } summary { cursor: pointer; color: var(--soft); }
details .wide { max-height: 28rem; overflow: auto; }
details th { position: sticky; top: 0; background: var(--wash); }
@media (max-width: 46rem) {
  .figures { grid-template-columns: minmax(0, 1fr); }
  figure.many .drawing svg { max-width: none; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
  .contents, .contents tbody, .contents tr, .contents tr td { display: block; width: auto; padding: 0; border: 0; }
  .contents tr { padding: .6rem 0; border-bottom: 1px solid var(--line); }
  .tiles { grid-template-columns: 1fr 1fr; } }
"""
