"""Where does a path lie: on this machine, or in another file system?"""

from __future__ import annotations

import re
from pathlib import Path


def absolute(path: str) -> str:
    """The same path wherever another process thinks it is."""
    return str(Path(path).absolute()) if is_local(path) else path


def is_local(path: str) -> bool:
    """Does the path name no file system?"""
    return re.match(r"[a-zA-Z][\w+.-]*:/", path) is None
