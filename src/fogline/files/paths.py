"""Where does a path lie: on this machine, or in another file system?"""

from __future__ import annotations

import os
import re


def absolute(path: str) -> str:
    """The same path wherever another process thinks it is."""
    return os.path.abspath(plain(path)) if is_local(path) else path


def plain(path: str) -> str:
    """The path as this machine writes it; one of another file system as it is.

    >>> plain("file:///tmp/in"), plain("file:/tmp/in"), plain("in"), plain("hdfs://host/in")
    ('/tmp/in', '/tmp/in', 'in', 'hdfs://host/in')
    """
    return re.sub(r"^file:(?://)?(?=/(?!/))", "", path, flags=re.IGNORECASE)


def is_local(path: str) -> bool:
    """Does the path name no file system, or that of this machine?"""
    return re.match(r"[a-zA-Z][\w+.-]*:/", plain(path)) is None
