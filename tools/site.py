"""Is the site of the docs built without a warning, is every page in it, and does it load nothing from another host?

python tools/site.py             builds docs/ into build/site, and looks at every page
python tools/site.py --serve     the same, again whenever a page changes, on http://127.0.0.1:8000

Zensical builds it, as zensical.toml states. With --strict a link or an anchor that leads nowhere is an error.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS, SITE = ROOT / "docs", ROOT / "build" / "site"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?(?:src|href|data)="((?:https?:)?//[^"]*)"""
)
STYLE = re.compile(r"""(?:@import|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")
DIAGRAM = 'class="mermaid"'  # would be drawn by a script from elsewhere
PAGE = re.compile(r'"([^"]+\.md)"')


def elsewhere(folder: Path) -> Iterator[str]:
    """What the pages would load from other hosts."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css"):
            text = path.read_text(encoding="utf-8", errors="replace")
            found = STYLE.findall(text) + (LOADED.findall(text) if path.suffix == ".html" else [])
            found += [DIAGRAM] if DIAGRAM in text else []
            yield from (f"{path.relative_to(folder)} loads {each}" for each in dict.fromkeys(found))


def unlisted() -> Iterator[str]:
    """Pages that lie in docs/ and that no menu leads to, and the other way round."""
    listed = set(PAGE.findall((ROOT / "zensical.toml").read_text(encoding="utf-8")))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    yield from (f"docs/{name} is not in the nav of zensical.toml" for name in sorted(there - listed))
    yield from (f"docs/{name} is in the nav of zensical.toml, and is not there" for name in sorted(listed - there))


def main() -> int:
    """Build, then look."""
    zensical = [sys.executable, "-m", "zensical"]
    if "--serve" in sys.argv:
        return subprocess.run([*zensical, "serve", "--dev-addr", "127.0.0.1:8000"], cwd=ROOT, check=False).returncode
    shutil.rmtree(SITE, ignore_errors=True)  # pages that are gone stay otherwise
    built = subprocess.run(
        [*zensical, "build", "--strict", "--clean"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if built.returncode:
        print(built.stdout + built.stderr)
        return built.returncode
    for script in SITE.glob("*.py"):  # Zensical copies whatever lies in docs/
        script.unlink()
    found = [*unlisted(), *elsewhere(SITE)]
    print(
        "\n".join(found) if found else f"{len(list(SITE.rglob('*.html')))} pages in build/site, nothing from elsewhere."
    )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
