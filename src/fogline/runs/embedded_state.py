"""What does a run in one process keep between batches: the stages' state, and what the batch under way shall do.

The state lies in `state.sqlite.Checkpoint`. When the rows of a batch were read, and before anything of it is put into
the output or a sink, its *intent* is written: the files, by what they are known, and the machine's clock. A batch that
is done again reads the same files, from the state before it; one of which there is no intent has put nothing anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fogline.files.mark import FileMark, Span
from fogline.output.folder import LocalFolder
from fogline.pipeline.names import CHECKPOINT
from fogline.state.sqlite import Checkpoint, ShardStore

ALL = 2**62  # rows: as many as there are


class Intent(NamedTuple):
    """What a batch shall do, written before it puts anything anywhere."""

    files: list[tuple[str, int]]  # paths, and when each was changed, in milliseconds
    now: int  # the machine's clock, in microseconds
    follows: bool  # whether silent groups are moved on
    skip: int = 0  # rows of the first file that were taken before
    most: int = ALL  # rows that it reads
    spans: Sequence[Span] = ()  # the part of each file that it reads; none are known: all of each
    marks: Sequence[FileMark | None] = ()  # by what those are known that it has read; None: it could not be read


class EmbeddedState:
    """The state of all stages after the last batch that was committed, and what the next one changes."""

    def __init__(self, place: LocalFolder, mark: str = "") -> None:
        self.checkpoint = Checkpoint(place.root / CHECKPOINT, mark)

    @property
    def batch(self) -> int:
        """The last one that is committed; -1: none is."""
        return self.checkpoint.batch

    @property
    def own(self) -> ShardStore:
        """What is kept of no shard: watermarks, and the file that was cut."""
        return self.checkpoint.shard("")

    def intent(self) -> Intent | None:
        """What the batch after the last committed one was to do; None: it has put nothing anywhere."""
        if (plain := self.checkpoint.intent) is None:
            return None
        files = [(path, when) for path, when in plain["files"]]
        spans = [Span(*each) for each in plain["spans"]]
        marks = [None if each is None else FileMark(*each) for each in plain.get("marks", ())]
        return Intent(**{**plain, "files": files, "spans": spans, "marks": marks})

    def begin(self, intent: Intent) -> None:
        """The next batch will do this, however often it has to be begun."""
        self.checkpoint.begin(intent._asdict())

    def withdraw(self) -> None:
        """The batch that was begun has failed before it put anything anywhere: the next start begins another one.

        Nothing more comes of this process.
        """
        self.close()
        fresh = Checkpoint(self.checkpoint.folder, self.checkpoint.mark)
        if fresh.intent is not None:
            fresh.begin(None)
        fresh.close()

    def commit(self, *, reported: bool = False) -> None:
        """The batch is done: what it changed counts from now on. `reported`: it had something to report."""
        self.checkpoint.commit(reported=reported)

    def close(self) -> None:
        """Nothing more comes of this process."""
        self.checkpoint.close()
