"""Is the site of the docs built without a warning, and does it load nothing from another host?

python tools/site.py             builds docs/ into build/site, and looks at every page
python tools/site.py --serve     the same, again whenever a page changes, on http://127.0.0.1:8000
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?(?:src|href|data)="((?:https?:)?//[^"]*)"""
)
STYLE = re.compile(r"""(?:@import|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")
DIAGRAM = 'class="mermaid"'  # would be drawn by a script from elsewhere


def elsewhere(folder: Path) -> Iterator[str]:
    """What the pages would load from other hosts."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css"):
            text = path.read_text(encoding="utf-8", errors="replace")
            found = STYLE.findall(text) + (LOADED.findall(text) if path.suffix == ".html" else [])
            found += [DIAGRAM] if DIAGRAM in text else []
            yield from (f"{path.relative_to(folder)} loads {each}" for each in dict.fromkeys(found))


def main() -> int:
    """Build, then look."""
    what = ["serve"] if "--serve" in sys.argv else ["build", "--strict", "--quiet"]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run([sys.executable, "-m", "mkdocs", *what], cwd=ROOT, env=quiet, check=False)
    if built.returncode:
        return built.returncode
    found = list(elsewhere(SITE))
    print(
        "\n".join(found) if found else f"{len(list(SITE.rglob('*.html')))} pages in build/site, nothing from elsewhere."
    )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
