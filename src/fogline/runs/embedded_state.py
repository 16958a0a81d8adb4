"""What does a run in one process keep between batches, by the names that its stages use?

Values are entries of `state.sqlite.Checkpoint`. Before a batch is evaluated its *intent* is written: the files that it
reads, and the machine's clock. A batch that is done again reads the same files, from the state before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fogline.files.mark import Span
from fogline.output.folder import LocalFolder
from fogline.pipeline.names import CHECKPOINT
from fogline.state.sqlite import Checkpoint

ALL = 2**62  # rows: as many as there are


class Entry(NamedTuple):
    """A name for what is kept."""

    what: str
    key: str = ""
    number: int = 0


class Intent(NamedTuple):
    """What a batch shall do, written before it is begun."""

    files: list[tuple[str, int]]  # paths, and when each was changed, in milliseconds
    now: int  # the machine's clock, in microseconds
    follows: bool  # whether silent groups are moved on
    skip: int = 0  # rows of the first file that were taken before
    most: int = ALL  # rows that it reads
    spans: Sequence[Span] = ()  # the part of each file that it reads; none are known: all of each


class EmbeddedState:
    """The state of all stages after the last batch that was committed, and what the next one changes."""

    def __init__(self, place: LocalFolder, mark: str = "") -> None:
        self.checkpoint = Checkpoint(place.root / CHECKPOINT, mark)

    @property
    def batch(self) -> int:
        """The last one that is committed; -1: none is."""
        return self.checkpoint.batch

    def get(self, entry: Entry) -> bytes | None:
        """What was put there; None: nothing."""
        return self.checkpoint.get(("", *entry))

    def put(self, entry: Entry, saved: bytes) -> None:
        """Keep it, instead of what is there."""
        self.checkpoint.put(("", *entry), saved)

    def remove(self, entry: Entry) -> None:
        """Forget what is there, if anything is."""
        self.checkpoint.delete(("", *entry))

    def all(self, what: str) -> Iterator[tuple[str, bytes]]:
        """The keys of one sort, and what is kept for each."""
        return ((key, saved) for key, _, saved in self.checkpoint.all("", what))

    def cells(self, what: str, key: str) -> StateCells:
        """Numbered cells of one group or bucket."""
        return StateCells(self, what, key)

    def intent(self) -> Intent | None:
        """What the batch after the last committed one was to do; None: it was never begun."""
        if (plain := self.checkpoint.intent) is None:
            return None
        files = [(path, when) for path, when in plain["files"]]
        return Intent(**{**plain, "files": files, "spans": [Span(*each) for each in plain["spans"]]})

    def begin(self, intent: Intent) -> None:
        """The next batch will do this, however often it has to be begun."""
        self.checkpoint.begin(intent._asdict())

    def commit(self) -> None:
        """The batch is done: what it changed counts from now on."""
        self.checkpoint.commit()

    def close(self) -> None:
        """Nothing more comes of this process."""
        self.checkpoint.close()


class StateCells:
    """Cells beside the state of one group or bucket."""

    def __init__(self, state: EmbeddedState, what: str, key: str) -> None:
        self.state, self.what, self.key = state, what, key

    def get(self, number: int) -> bytes:
        saved = self.state.get(Entry(self.what, self.key, number))
        assert saved is not None, f"{self.what} of {self.key} has no cell {number}"
        return saved

    def put(self, number: int, saved: bytes) -> None:
        self.state.put(Entry(self.what, self.key, number), saved)

    def remove(self, number: int) -> None:
        self.state.remove(Entry(self.what, self.key, number))
