"""Do the notebooks in examples/ still run, and with which outputs?

python tools/notebooks.py        runs them all, and keeps their outputs
"""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).resolve().parents[1] / "examples"


def run(path: Path) -> Any:
    """The notebook with fresh outputs, without what differs from run to run (execution times, messages on stderr)."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(path.parent))
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
            for each in cell.outputs:
                if "image/png" in each.get("data", {}):
                    each.data["image/png"] = small(each.data["image/png"])
                    each.metadata = {}
    return notebook


def small(png: str) -> str:
    """A picture in few colours, as base64."""
    out = io.BytesIO()
    Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB").quantize(96).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def texts(notebook: Any) -> list[str]:
    """What its cells printed or showed; of pictures only that they are there.

    What a cell prints comes in as many pieces as it happens to be sent: they are one text.
    """
    found: list[str] = []
    for cell in notebook.cells:
        printed = False
        for each in cell.get("outputs", []):
            data = each.get("data", {})
            shown = data.get("text/html", data.get("text/plain", each.get("text", "")))
            if printed and "text" in each:
                found[-1] += shown
            else:
                found.append("picture" if "image/png" in data else shown)
            printed = "text" in each
    return found


def main() -> int:
    """All of them, in place."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(run(path), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
