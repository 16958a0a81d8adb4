"""Which cases of fuzzing does a seed have?

Texts, values, rows and files of every sort; whatever was saved, damaged; kernels with their bounds checked. What is
tried, and how it may end, is stated in `fuzz_texts`, `fuzz_rows`, `fuzz_saved` and `fuzz_bounds`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

from tests.chaos import fuzz_bounds, fuzz_rows, fuzz_saved, fuzz_texts
from tests.chaos.case import REFUSED, SAME, Case, Outcome
from tests.chaos.fuzz_saved import Tried
from tests.flow.embedding import CASES

COUNT = 400  # of texts, values and rows of a case
MOST = 300  # ways in which one saved thing is damaged


def cases(seed: int) -> Iterator[Case]:
    """The cases of one seed."""
    for name, attempt in _ATTEMPTS.items():
        yield Case("fuzz", name, "values", seed, partial(_tried, attempt, seed, COUNT))
    for name, damage in _DAMAGES.items():
        yield Case("fuzz", name, "damage", seed, partial(_damaged, damage, seed, MOST))
    if seed % 5 == 0:  # it is compiled anew, which takes minutes
        yield Case("fuzz", "bounds", "kernels", seed, lambda: Outcome(SAME, faults=fuzz_bounds.try_bounds(seed)))


def _tried(attempt: Callable[[int, int], tuple[int, object]], seed: int, count: int) -> Outcome:
    return Outcome(SAME, faults=attempt(seed, count)[0])


def _damaged(damage: Callable[[random.Random, int, Tried], None], seed: int, most: int) -> Outcome:
    tried = Tried()
    damage(random.Random(seed), most, tried)
    return Outcome(REFUSED if tried.refused else SAME, faults=tried.faults, shown=tried.stated[:300])


def _each(examples: Callable[[], tuple[fuzz_saved.Saved, ...]]) -> Callable[[random.Random, int, Tried], None]:
    def damage(rng: random.Random, most: int, tried: Tried) -> None:
        for each in examples():
            fuzz_saved.try_saved(each, rng, most, tried)

    return damage


def small_ones(_: random.Random, most: int, tried: Tried) -> None:
    """Every bit and every truncation of what is small."""
    for each in (*fuzz_saved.travelling(), *fuzz_saved.states()):
        if len(each.whole) <= most * 5:
            fuzz_saved.try_saved(each, random.Random(0), most, tried, bits=True)


def files_of_a_checkpoint(rng: random.Random, most: int, tried: Tried) -> None:
    name = rng.choice(sorted(CASES))
    with fuzz_saved.checkpoint(name) as (folder, read):
        fuzz_saved.try_saved(fuzz_saved.state_in(folder, read), rng, most, tried)
        fuzz_saved.try_saved(fuzz_saved.about_of(folder), rng, most, tried)


def files_of_a_repository(rng: random.Random, most: int, tried: Tried) -> None:
    with fuzz_saved.repository() as (folder, read):
        fuzz_saved.try_files(folder, read, rng, max(most // 50, 3), tried, without=True)


_ATTEMPTS: dict[str, Callable[[int, int], tuple[int, object]]] = {
    "texts": fuzz_texts.try_texts,
    "files of texts": fuzz_texts.try_files,
    "fields": fuzz_texts.try_values,
    "page": fuzz_texts.try_page,
    "arrow types": fuzz_rows.try_arrow,
    "python values": fuzz_rows.try_values,
    "files of rows": fuzz_rows.try_bytes,
    "arrow memory": fuzz_rows.try_memory,
}
_DAMAGES: dict[str, Callable[[random.Random, int, Tried], None]] = {
    "snapshots": _each(fuzz_saved.snapshots),
    "states": _each(fuzz_saved.states),
    "group_rows": _each(fuzz_saved.travelling),
    "machine code": _each(lambda: (fuzz_saved.compiled(),)),
    "every bit": small_ones,
    "forged": fuzz_saved.try_forged,
    "checkpoint": files_of_a_checkpoint,
    "repository": files_of_a_repository,
}
