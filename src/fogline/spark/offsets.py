"""How far has a run read its topic? What Spark's checkpoint knows of it."""

from __future__ import annotations

import json

from fogline.flow.names import CHECKPOINT
from fogline.flow.output import Output

Offsets = dict[int, int]  # by partition
Bounds = dict[int, tuple[int, int]]  # by partition: the first offset that is there, and the next to come
_FOLDER = f"{CHECKPOINT}/offsets"


def known_batches(output: Output) -> list[int]:
    """The numbers of batches that were begun, as far as the checkpoint keeps them."""
    names = (name.rsplit("/", 1)[1] for name in output.place.listing(_FOLDER))
    return sorted(int(name) for name in names if name.isdigit())


def offsets_of(output: Output, batch: int, topic: str) -> Offsets | None:
    """Where a batch ends, by partition; None: it is not known."""
    content = output.place.get(f"{_FOLDER}/{batch}")
    if content is None:
        return None
    found = json.loads(content.decode().splitlines()[-1]).get(topic)
    return None if found is None else {int(partition): offset for partition, offset in found.items()}


def losses(begun: Offsets, there: Bounds, topic: str) -> str:
    """What is gone of a topic that was read so far; empty: nothing.

    >>> losses({0: 5, 1: 7}, {0: (9, 12), 1: (0, 7)}, "readings")
    "topic 'readings' no longer has the offsets 5 to 8 of partition 0, which were not read yet."
    """
    gone, anew = [], []
    for partition, offset in begun.items():
        first, after = there.get(partition, (0, 0))
        if offset > after:
            anew.append(f"partition {partition} ends before offset {after}, though {offset} were read")
        elif offset < first:
            gone.append(f"the offsets {offset} to {first - 1} of partition {partition}")
    parts = [f"no longer has {', '.join(gone)}, which were not read yet"] if gone else []
    parts += [f"is not the one that was read: {', '.join(anew)}"] if anew else []
    return f"topic {topic!r} {'; it '.join(parts)}." if parts else ""
