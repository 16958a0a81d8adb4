"""How did each case end? One line of JSON per case, so that a campaign goes on where it stopped.

The last line of a key counts. What ended well is not tried again; what was wrong or left out is.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.case import REFUSED, SAME, Case, Outcome

WRONG, LEFT_OUT = "wrong", "left out"


@dataclass(frozen=True)
class Line:
    """What is known of a case that was tried."""

    part: str
    scenario: str
    mode: str
    seed: int
    end: str  # "same", "refused", "wrong" or "left out"
    faults: int = 0
    schedules: int = 0
    shown: str = ""  # what the user was shown; of a wrong case what differs, of one left out the reason
    repeat: str = ""  # the command that repeats a wrong case
    seconds: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.part}/{self.scenario}/{self.mode}/{self.seed}"

    @property
    def ended_well(self) -> bool:
        return self.end in (SAME, REFUSED)


def line_of(case: Case, end: Outcome, seconds: float) -> Line:
    return Line(
        case.part, case.scenario, case.mode, case.seed, end.end, end.faults, end.schedules, end.shown, "", seconds
    )


class Ledger:
    """The lines of a file, by key; a line that was cut off by the end of its process does not count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[str, Line] = {}
        if path.exists():
            for text in path.read_text(encoding="utf-8").splitlines():
                if (line := _read(text)) is not None:
                    self.lines[line.key] = line

    def has(self, key: str) -> bool:
        return key in self.lines and self.lines[key].ended_well

    def add(self, line: Line) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line), ensure_ascii=False) + "\n")
        self.lines[line.key] = line

    def wrong(self) -> list[Line]:
        return [line for line in self.lines.values() if line.end == WRONG]


def _read(text: str) -> Line | None:
    try:
        return Line(**json.loads(text))
    except (ValueError, TypeError):
        return None
