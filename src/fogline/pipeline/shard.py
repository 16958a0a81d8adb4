"""Where do the states of many groups lie, so that one call can take rows for all that came?

On a shard: an engine has a fixed number of them for each query, each with a store of its own, and a group lies on the
one that its key's hash names. (The only group of a query without groups lies on the only shard.) The states of small
groups lie in *blocks*, some dozens in each (`small_groups`); which block it is, the same hash names. A call reads and
writes the blocks of groups that rows or time have reached, and no others. When blocks have become full, there are twice
as many. A large group lies apart, under its own key; its block knows so.

The *index* of a shard has the number of groups and the first timer of each block: no block is read to learn that
nothing is due. Nothing outlives a call but what lies in the store.

In the store are the index, "groups" (blocks, by number), "large" (states of large groups, by key), and what lies beside
the state of a group, by its key: "waiting", "readings" and "changelog".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from fogline.pipeline import loaded as cache
from fogline.pipeline.exchange import ArrivedRows
from fogline.pipeline.loaded import LoadedGroup, at_most
from fogline.pipeline.plan import Plan
from fogline.pipeline.report import BatchResult, batch_result
from fogline.pipeline.runner import GroupRunner
from fogline.pipeline.small_groups import (
    GroupStates,
    fits,
    joined,
    loaded_groups,
    may_go_together,
    saved_states,
    take_together,
)
from fogline.rows.names import KeyText
from fogline.saved import Arrays
from fogline.state.format import from_state, saved_by, to_state
from fogline.state.store import MemoryStore, StateStore, must_get

FULL = 48  # groups in a block, on average, for which there are twice as many blocks
AT_ONCE = 1_000  # groups that are loaded at once, about
OPEN = 4  # groups of a block that stays open, at most: they stay loaded, which saves a third of their time

_INDEX, _GROUPS, _LARGE = "index", "groups", "large"  # in the store
_APART = "apart "  # before the names of arrays
_WHAT = "block of groups"


class Apart(NamedTuple):
    """A group that does not lie side by side with others."""

    timer: int | None
    mark: str | None  # the digest of its state, which lies under its key; None: it lies in the block
    saved: bytes  # its state, if it lies in the block


@dataclass
class Block:
    """Groups whose states are read and written together."""

    small: GroupStates | None
    apart: dict[KeyText, Apart]
    loaded: dict[KeyText, LoadedGroup] = field(default_factory=dict)  # some of them, if they need not be loaded

    @property
    def keys(self) -> list[KeyText]:
        """Of all groups."""
        return [*([] if self.small is None else self.small.keys), *self.apart]

    def timers(self) -> Iterator[tuple[KeyText, int]]:
        """When time alone changes which group."""
        if self.small is not None:
            for key, timer in zip(self.small.keys, self.small.timers, strict=True):
                if timer is not None:
                    yield key, timer
        for key, each in self.apart.items():
            if each.timer is not None:
                yield key, each.timer

    @property
    def first_timer(self) -> int | None:
        """The first of these."""
        dues = [None if self.small is None else self.small.first_timer, *(each.timer for each in self.apart.values())]
        return min((due for due in dues if due is not None), default=None)

    def part(self, keys: set[KeyText]) -> Block:
        """Some of the groups."""
        small = self.small
        if small is not None:
            which = [k for k, key in enumerate(small.keys) if key in keys]
            small = small.part(which) if which else None
        apart = {key: each for key, each in self.apart.items() if key in keys}
        return Block(small, apart, {key: each for key, each in self.loaded.items() if key in keys})


@dataclass
class ShardIndex:
    """What is known of all blocks."""

    counts: list[int] = field(default_factory=lambda: [0])  # groups of each block; as many blocks as a power of two
    dues: list[int | None] = field(default_factory=lambda: [None])  # the first timer of each block

    @property
    def timer(self) -> int | None:
        """The first of all."""
        return min((due for due in self.dues if due is not None), default=None)

    def grow(self, groups: int) -> bool:
        """Are there more blocks now, since there are so many groups?"""
        blocks = len(self.counts)
        while groups > FULL * blocks:
            blocks *= 2
        more = blocks - len(self.counts)
        self.counts += [0] * more
        self.dues += [None] * more
        return more > 0


class ShardTimers(NamedTuple):
    """What a call leaves behind, beside what it wrote."""

    before: int | None  # the timer that the shard had
    timer: int | None


def shard_of(key: KeyText, shards: int) -> int:
    """On which of so many shards a group lies."""
    return _hash(key) % shards


def _hash(key: KeyText) -> int:
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Shard:
    """Takes rows, or time, for the groups of one shard, in one batch: `take` as often as need be, then `finish`."""

    def __init__(self, runner: GroupRunner, store: StateStore) -> None:
        self.runner, self.plan, self.store = runner, runner.plan, store
        saved = store.get(_INDEX)
        self.found = saved is not None
        self.index = ShardIndex() if saved is None else ShardIndex(*json.loads(saved))
        self.before = self.index.timer
        self.goes_together = may_go_together(self.plan)
        self.frontiers: dict[KeyText, float] = {}  # of groups that rows have reached, unless these are forgotten

    def take(self, come: ArrivedRows, watermark: int | None = None) -> Iterator[BatchResult]:
        """Rows reach these groups; or the watermark (in milliseconds) reaches those whose timers are due.

        What there is to report comes while it is worked out, group after group in one order: a batch that is done again
        reports the same in the same places.
        """
        if not self.found and watermark is None:
            self.index.grow(len(come))
        for numbers in self._some_blocks(come, watermark):
            yield self._step(numbers, come, watermark)

    def finish(self) -> ShardTimers:
        """Write the index, and more blocks if there are many groups."""
        index, blocks = self.index, len(self.index.counts)
        if index.grow(sum(index.counts)):
            for number in [k for k, count in enumerate(index.counts[:blocks]) if count]:
                block = self._open(number)
                there = self._by_block(block.keys)
                there.setdefault(number, [])
                self._deal(block, list(there.items()))
        if sum(index.counts):
            self.store.put(_INDEX, "", 0, json.dumps([index.counts, index.dues]).encode())
        elif self.found:
            self.store.delete(_INDEX, "", 0)
        return ShardTimers(self.before, index.timer)

    def group_keys(self) -> Iterator[KeyText]:
        """Of all groups."""
        for number in [k for k, count in enumerate(self.index.counts) if count]:
            yield from self._open(number).keys

    def groups(self) -> Iterator[LoadedGroup]:
        """All groups, loaded: to see what they take."""
        for number in [k for k, count in enumerate(self.index.counts) if count]:
            block = self._open(number)
            yield from () if block.small is None else loaded_groups(self.runner, block.small)
            yield from (self._loaded_apart(key, each) for key, each in block.apart.items())

    def _deal(self, block: Block, there: Sequence[tuple[int, list[KeyText]]]) -> None:
        """Write the groups of a block where they lie from now on: half by half, so as to look at each a few times."""
        if len(there) == 1:
            self._write(there[0][0], block)
            return
        middle = len(there) // 2
        for half in (there[:middle], there[middle:]):
            self._deal(block.part({key for _, keys in half for key in keys}), half)

    def _some_blocks(self, come: ArrivedRows, watermark: int | None) -> Iterator[dict[int, list[KeyText]]]:
        """The blocks that are concerned, a few at a time, with the groups that rows have reached."""
        if watermark is None:
            concerned = self._by_block(list(come))
        else:
            dues = enumerate(self.index.dues)
            concerned = {number: [] for number, due in dues if due is not None and due <= watermark}
        some: dict[int, list[KeyText]] = {}
        groups = 0
        for number, keys in sorted(concerned.items()):
            some[number] = keys
            groups += max(len(keys), 1 if keys else self.index.counts[number])
            if groups >= AT_ONCE:
                yield some
                some, groups = {}, 0
        if some:
            yield some

    def _by_block(self, keys: Sequence[KeyText]) -> dict[int, list[KeyText]]:
        """The groups by their blocks, in one order."""
        out: dict[int, list[KeyText]] = {}
        for key in sorted(keys):
            out.setdefault(_hash(key) // self.plan.buckets % len(self.index.counts), []).append(key)
        return out

    def _step(self, numbers: dict[int, list[KeyText]], come: ArrivedRows, watermark: int | None) -> BatchResult:
        """The groups of these blocks that are concerned take what has come."""
        blocks = {number: self._open(number) if self.index.counts[number] else Block(None, {}) for number in numbers}
        keys = {n: numbers[n] if watermark is None else _due(blocks[n], watermark) for n in numbers}
        then, result = self._groups([blocks[n].part(set(keys[n])) for n in numbers], keys, come, watermark)
        small, apart = then.small, then.apart
        place = {} if small is None else {key: k for k, key in enumerate(small.keys)}
        for n, block in blocks.items():
            rest = block.part(set(block.keys) - set(keys[n]))
            stepped = [] if small is None else [small.part([place[key] for key in keys[n] if key in place])]
            both = joined([*([] if rest.small is None else [rest.small]), *stepped])
            loaded = rest.loaded | {key: then.loaded[key] for key in keys[n] if key in then.loaded}
            self._write(n, Block(both, rest.apart | {key: apart[key] for key in keys[n] if key in apart}, loaded))
        return result

    def _groups(
        self, blocks: list[Block], keys: Mapping[int, list[KeyText]], come: ArrivedRows, watermark: int | None
    ) -> tuple[Block, BatchResult]:
        """The groups as they are to lie, but for those that are forgotten, and what they report.

        Most of the small ones take their rows together; the others are loaded, one after the other.
        """
        before = {key: each for block in blocks for key, each in block.apart.items()}
        small = joined([block.small for block in blocks if block.small is not None])
        together = None
        if small is not None and watermark is None and self.goes_together:
            together = take_together(self.runner, small, come)
        ready = set[KeyText]()
        if together is not None:
            ready = set(together.states.keys)
            frontiers = together.states.columns["frontier"].tolist()
            self.frontiers |= zip(together.states.keys, frontiers, strict=True)
        loaded = {key: each for block in blocks for key, each in block.loaded.items() if key not in ready}
        if small is not None:
            rest = [k for k, key in enumerate(small.keys) if key not in ready and key not in loaded]
            if rest:
                some = small.part(rest)
                loaded |= zip(some.keys, loaded_groups(self.runner, some), strict=True)
        stay: dict[KeyText, LoadedGroup] = {}
        fitting: list[tuple[KeyText, LoadedGroup]] = []
        apart: dict[KeyText, Apart] = {}
        reports = []
        for key in (key for some_keys in keys.values() for key in some_keys if key not in ready):
            was = before.get(key)
            group = loaded.pop(key, None) or (self.runner.new() if was is None else self._loaded_apart(key, was))
            done = self.runner.step(key, group, come.get(key, ()), watermark, self.store)
            reports.append(done.report)
            if not done.forgotten and watermark is None:
                self.frontiers[key] = done.then.ahead.frontier
            if not done.forgotten and fits(done.then):
                fitting.append((key, done.then))
            elif not done.forgotten:
                apart[key] = self._saved_apart(key, done.then)
            if was is not None and was.mark is not None and (key not in apart or apart[key].mark is None):
                self.store.delete(_LARGE, key, 0)
            if not done.forgotten and done.then.log is None and (key not in apart or apart[key].mark is None):
                stay[key] = done.then
        stepped = [] if together is None else [together.states]
        if fitting:
            stepped.append(saved_states(self.runner, fitting))
        result = [] if together is None else together.result
        if reports:
            result = [*result, *batch_result(self.plan, self.runner.tables, reports)]
        return Block(joined(stepped), apart, stay), result

    def _loaded_apart(self, key: KeyText, each: Apart) -> LoadedGroup:
        if each.mark is None:
            return self.runner.load(key, each.saved, self.store)
        known: LoadedGroup | None = cache.pop((bytes.fromhex(each.mark), self.plan.digest))
        return known or self.runner.load(key, must_get(self.store, _LARGE, key), self.store)

    def _saved_apart(self, key: KeyText, then: LoadedGroup) -> Apart:
        state = self.runner.save(then)
        if len(state) < cache.LARGE:
            return Apart(then.timer, None, state)
        mark = cache.digest(state)
        self.store.put(_LARGE, key, 0, state)
        if then.log is None:  # a log has been cached
            cache.put((mark, self.plan.digest), then, at_most(self.plan, then))
        return Apart(then.timer, mark.hex(), b"")

    def _open(self, number: int) -> Block:
        saved = must_get(self.store, _GROUPS, part=number)
        known: Block | None = cache.pop((cache.digest(saved), self.plan.digest))
        if known is not None:
            return known
        was = saved_by(self.plan, saved)
        block = opened(was, saved)
        return block if was is self.plan else self._moved(block, was)

    def _moved(self, block: Block, was: Plan) -> Block:
        """A block of a plan that the run had before. What lies apart is moved when it is loaded: it knows its plan."""
        small: list[tuple[KeyText, LoadedGroup]] = []
        apart = dict(block.apart)
        if block.small is not None:
            for key, each in zip(block.small.keys, loaded_groups(GroupRunner(was), block.small), strict=True):
                then = self.runner.moved(key, each, was, self.store)
                if fits(then):
                    small.append((key, then))
                else:
                    apart[key] = self._saved_apart(key, then)
        return Block(saved_states(self.runner, small) if small else None, apart)

    def _write(self, number: int, block: Block) -> None:
        """Keep the block, or nothing if it is empty."""
        count, index = len(block.keys), self.index
        if count:
            state = packed(self.plan, block)
            self.store.put(_GROUPS, "", number, state)
            if block.loaded and count <= OPEN:
                size = sum(at_most(self.plan, each) for each in block.loaded.values())
                cache.put((cache.digest(state), self.plan.digest), block, len(state) + size)
        elif index.counts[number]:
            self.store.delete(_GROUPS, "", number)
        index.counts[number] = count
        index.dues[number] = block.first_timer


def once(runner: GroupRunner, come: ArrivedRows) -> Iterator[BatchResult]:
    """All rows of these groups have come, and nothing follows: what there is to report, some groups at a time."""
    keys, store = list(come), MemoryStore()
    for k in range(0, len(keys), AT_ONCE):
        some = keys[k : k + AT_ONCE]
        done = [runner.step(key, runner.new(), come[key], None, store, end=True) for key in some]
        yield batch_result(runner.plan, runner.tables, [each.report for each in done])


def packed(plan: Plan, block: Block) -> bytes:
    """A block as one bytes object."""
    small, arrays = block.small, Arrays()
    header: dict[str, Any] = {"keys": []}
    header["apart"] = [[key, each.timer, each.mark] for key, each in block.apart.items()]
    if small is not None:
        header["keys"], arrays = small.keys, small.to_arrays()
    for k, each in enumerate(block.apart.values()):
        if each.mark is None:
            arrays[f"{_APART}{k}"] = np.frombuffer(each.saved, np.uint8)
    return to_state(plan, header, arrays)


def opened(plan: Plan, saved: bytes) -> Block:
    """The inverse of `packed`."""
    header, arrays = from_state(plan, saved, _WHAT)
    apart = {}
    for k, (key, timer, mark) in enumerate(header["apart"]):
        apart[key] = Apart(timer, mark, arrays[f"{_APART}{k}"].tobytes() if mark is None else b"")
    small = GroupStates.from_arrays(header["keys"], arrays) if header["keys"] else None
    return Block(small, apart)


def _due(block: Block, watermark: int) -> list[KeyText]:
    """The groups that time alone changes by now, in one order: in a block they lie as they were written last."""
    return sorted(key for key, timer in block.timers() if timer <= watermark)
