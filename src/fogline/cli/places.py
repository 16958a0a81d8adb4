"""Where shall the batches of a run go, as options of a command state it?"""

from __future__ import annotations

from collections.abc import Sequence

from fogline.errors import QueryError
from fogline.flow.sink import Sink
from fogline.sinks.places import sink_for


def where_to(output: str | None, to: Sequence[str], checkpoint: str | None) -> tuple[str, tuple[Sink, ...]]:
    """The run's own folder, and the sinks beside it."""
    if output is not None and checkpoint is not None:
        raise QueryError(f"--output has the checkpoint in it; leave --checkpoint {checkpoint} out.")
    if output is None and not to:
        raise QueryError("where shall the answer go? Name a folder with --output, or other places with --to.")
    folder = output if output is not None else checkpoint
    if folder is None:
        raise QueryError(
            "--to alone needs --checkpoint FOLDER as well: what a run needs to go on after a crash is kept there. "
            "Or name an --output, which holds the changes too."
        )
    return folder, tuple(sink_for(each, typed=True) for each in to)
