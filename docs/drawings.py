"""How were the two drawings of docs/how.md made?

    python docs/drawings.py

`how-beats.svg`: five rooms, of which one lacks a value. `how-row.svg`: the way of a row. Plain SVG on a light card, so
that they read on light and on dark pages; colours are safe for the colour-blind, and shapes repeat them.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
BLUE, ORANGE, GREY, INK, PALE = "#0072b2", "#c45500", "#7a828a", "#17202a", "#e8f1f8"
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" font-family="system-ui, sans-serif" font-size="15">'
    '<rect width="{w}" height="{h}" rx="10" fill="#fff" stroke="#d5dbe0"/>'
)


def text(
    x: float, y: float, words: str, colour: str = INK, *, anchor: str = "start", weight: str = "400", size: int = 15
) -> str:
    """Words at a point."""
    style = f'fill="{colour}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"'
    return f'<text x="{x}" y="{y}" {style}>{words}</text>'


def beats() -> str:
    """CO2 to the right, heat upwards; what lies lower and further left than a room is beaten by it."""
    left, bottom, width, height = 80, 330, 560, 270  # of the axes

    def x(co2: float) -> float:
        return left + width * (co2 - 500) / 1200

    def y(heat: float) -> float:
        return bottom - height * (heat - 20) / 8.5

    store, lab = (900.0, 27.0), (1400.0, 22.0)
    parts = [HEAD.format(w=720, h=400)]
    for co2, heat in (store, lab):  # what each of them beats
        parts.append(
            f'<rect x="{left}" y="{y(heat)}" width="{x(co2) - left}" height="{bottom - y(heat)}" fill="{PALE}"/>'
        )
    parts.append(f'<path d="M{left} {bottom - height}V{bottom}H{left + width}" fill="none" stroke="{GREY}"/>')
    parts.append(text(left + width, bottom + 40, "more CO₂ →", GREY, anchor="end"))
    parts.append(text(left - 12, bottom - height - 14, "↑ hotter", GREY))
    parts.append(f'<path d="M{x(700)} {y(26)}H{x(1400)}" stroke="{ORANGE}" stroke-width="3"/>')
    parts.extend(f'<path d="M{x(co2)} {y(26) - 8}l8 8l-8 8l-8 -8z" fill="{ORANGE}"/>' for co2 in (700, 900, 1400))
    parts.append(text(x(1400) + 14, y(26) + 5, "hall, CO₂ missing", ORANGE, weight="600"))
    for name, (co2, heat) in {"store": store, "lab": lab}.items():
        parts.append(f'<circle cx="{x(co2)}" cy="{y(heat)}" r="8" fill="{BLUE}"/>')
        parts.append(text(x(co2) + 14, y(heat) + (22 if name == "lab" else -6), name, BLUE, weight="600"))
    parts.append(f'<circle cx="{x(700)}" cy="{y(21)}" r="7" fill="#fff" stroke="{GREY}" stroke-width="2"/>')
    parts.append(text(x(700) + 14, y(21) + 5, "office: beaten by store and lab", GREY))
    return "".join([*parts, "</svg>"])


def row() -> str:
    """Boxes from left to right: read, fill, keep or forget, answer."""
    boxes = [
        ("1  read", ["a row is taken,", "or rejected", "with a reason"]),
        ("2  bound", ["a gap gets its", "least and greatest", "possible value"]),
        ("3  forget", ["a row that can no", "longer matter", "is dropped"]),
        ("4  sum", ["the others get", "distributions and", "a probability"]),
        ("5  report", ["what enters, leaves", "or has become", "likelier"]),
    ]
    parts = [HEAD.format(w=960, h=270)]
    for k, (title, lines) in enumerate(boxes):
        at = 24 + 186 * k
        parts.append(f'<rect x="{at}" y="60" width="166" height="120" rx="8" fill="{PALE}" stroke="{BLUE}"/>')
        parts.append(text(at + 14, 88, title, BLUE, weight="700", size=17))
        parts.extend(text(at + 14, 114 + 21 * j, line) for j, line in enumerate(lines))
        if k < len(boxes) - 1:
            parts.append(f'<path d="M{at + 168} 120h12m-6 -5l6 5l-6 5" fill="none" stroke="{INK}" stroke-width="2"/>')
    parts.append(text(24, 36, "a row with gaps", GREY))
    parts.append(text(24 + 186 * 4 + 166, 36, "changes of the answer", GREY, anchor="end"))
    parts.append(f'<path d="M293 214v-26m-5 6l5 -6l5 6" fill="none" stroke="{ORANGE}" stroke-width="2"/>')
    parts.append(f'<path d="M665 214v-26m-5 6l5 -6l5 6" fill="none" stroke="{ORANGE}" stroke-width="2"/>')
    parts.append(
        text(479, 236, "history: what followed in such situations before", ORANGE, anchor="middle", weight="600")
    )
    parts.append(f'<path d="M293 214H665" stroke="{ORANGE}" stroke-width="2"/>')
    return "".join([*parts, "</svg>"])


if __name__ == "__main__":
    for name, drawn in {"how-beats": beats(), "how-row": row()}.items():
        (HERE / f"{name}.svg").write_text(drawn + "\n", encoding="utf-8")
