"""How does the page look? Quiet, in the reader's own font, light or dark as he has it, and on a telephone."""

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
.confirmed { --tone: var(--good); } .not-confirmed { --tone: var(--bad); } .differs { --tone: var(--other); }
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
