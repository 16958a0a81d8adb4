"""With which version of the repository does a run go on?

With the one it was begun with, also when the repository's folder has a newer one by now: its state was made with that,
and the folder keeps it.
"""

from __future__ import annotations

import json
from dataclasses import replace

from fogline.errors import HistoryError
from fogline.flow.folder import Folder
from fogline.flow.names import ABOUT
from fogline.flow.output import RunConfig, has_batches
from fogline.repository.repository import Repository


def as_begun(config: RunConfig, place: Folder) -> RunConfig:
    """The same run with the version that it was begun with, where that is still there."""
    known, about = config.repository, place.get(ABOUT)
    if known is None or known.folder is None or about is None or not has_batches(place):
        return config
    mark = json.loads(about).get("repository")
    if mark in (None, known.fingerprint):
        return config
    try:
        return replace(config, repository=Repository.load(known.folder, mark))
    except HistoryError:  # the output refuses the run, and names both
        return config
