"""Where shall the batches of a run go, as options of a command state it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fogline.errors import QueryError
from fogline.files.apart import must_be_apart
from fogline.files.paths import absolute
from fogline.flow.folder_sink import FolderSink
from fogline.flow.sink import Sink
from fogline.sinks.delta import DeltaSink
from fogline.sinks.places import shown, sink_for


def where_to(
    stream: str, output: str | None, to: Sequence[str], checkpoint: str | None
) -> tuple[str, tuple[Sink, ...]]:
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
    if twice := [each for each, count in Counter(to).items() if count > 1]:
        raise QueryError(f"--to {shown(twice[0])} is named twice; each batch goes there once.")
    sinks = tuple(sink_for(each, typed=True) for each in to)
    for sink in sinks:
        if isinstance(sink, FolderSink | DeltaSink):
            if sink.path == absolute(folder):
                raise QueryError(f"--to {sink.path} is the output itself, which gets every batch; leave --to out.")
            must_be_apart(stream, sink.path)
    return folder, sinks
