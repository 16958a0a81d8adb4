"""Write an example of each format that has none yet: `python -m tests.formats.write`.

What is there is left alone: an example is never rewritten (see README.md).
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.formats.examples import EXAMPLES, KEPT


def main() -> None:
    KEPT.mkdir(exist_ok=True)
    for each in EXAMPLES:
        path = KEPT / each.name
        if path.exists():
            print(f"{each.name} is there")
            continue
        each.write(path)
        with TemporaryDirectory() as empty:
            found = each.read(path, Path(empty))
        expected_of(path).write_text(json.dumps(found, indent=None, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{each.name} is written")


def expected_of(path: Path) -> Path:
    """Where it is written what comes of an example."""
    return path.with_name(f"{path.name}.expected.json")


if __name__ == "__main__":
    main()
