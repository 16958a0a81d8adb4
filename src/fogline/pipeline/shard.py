"""Where do the states of many groups lie, so that one call can take rows for all that came?

On a shard: an engine has a fixed number of them for each query, each with a store of its own, and a group lies on the
one that its key's hash names. (The only group of a query without groups lies on the only shard.) The states of small
groups lie in *pages*, some dozens in each (`small_groups`); which page it is, the same hash names. A call reads and
writes the pages of groups that rows or time have reached, and no others. When pages have become full, there are twice
as many. A large group lies apart, under its own key; its page knows so.

The *index* of a shard has the number of groups and the first timer of each page: no page is read to learn that nothing
is due. Nothing outlives a call but what lies in the store.

In the store are the index, "groups" (pages, by number), "large" (states of large groups, by key), and what lies beside
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
from fogline.pipeline.exchange import GroupRows
from fogline.pipeline.loaded import LoadedGroup, at_most
from fogline.pipeline.plan import Plan
from fogline.pipeline.report import Journal, journal
from fogline.pipeline.runner import GroupRunner
from fogline.pipeline.small_groups import Bundle, bundled, fits, joined, may_go_together, take_together, unbundled
from fogline.rows.names import KeyText
from fogline.saved import Arrays
from fogline.state.format import from_state, saved_by, to_state
from fogline.state.store import MemoryStore, StateStore, must_get

FULL = 48  # groups in a page, on average, for which there are twice as many pages
AT_ONCE = 1_000  # groups that are loaded at once, about
OPEN = 4  # groups of a page that stays open, at most: they stay loaded

_INDEX, _GROUPS, _LARGE = "index", "groups", "large"  # in the store
_APART = "apart "  # before the names of arrays
_WHAT = "page of groups"


class Apart(NamedTuple):
    """A group that does not lie side by side with others."""

    timer: int | None
    mark: str | None  # the digest of its state, which lies under its key; None: it lies in the page
    saved: bytes  # its state, if it lies in the page


@dataclass
class Page:
    """Groups whose states lie together."""

    small: Bundle | None
    apart: dict[KeyText, Apart]
    loaded: dict[KeyText, LoadedGroup] = field(
        default_factory=dict
    )  # of those that lie here, some that need not be loaded

    @property
    def keys(self) -> list[KeyText]:
        """Of all groups."""
        return [*([] if self.small is None else self.small.keys), *self.apart]

    def timers(self) -> Iterator[tuple[KeyText, int]]:
        """When time alone changes which group."""
        if self.small is not None:
            for key, header in zip(self.small.keys, self.small.headers, strict=True):
                if header["timer"] is not None:
                    yield key, header["timer"]
        for key, each in self.apart.items():
            if each.timer is not None:
                yield key, each.timer

    def part(self, keys: set[KeyText]) -> Page:
        """Some of the groups."""
        small = self.small
        if small is not None:
            which = [k for k, key in enumerate(small.keys) if key in keys]
            small = small.part(which) if which else None
        apart = {key: each for key, each in self.apart.items() if key in keys}
        return Page(small, apart, {key: each for key, each in self.loaded.items() if key in keys})


@dataclass
class PageIndex:
    """What is known of all pages."""

    counts: list[int] = field(default_factory=lambda: [0])  # groups of each page; as many pages as a power of two
    dues: list[int | None] = field(default_factory=lambda: [None])  # the first timer of each page

    @property
    def timer(self) -> int | None:
        """The first of all."""
        return min((due for due in self.dues if due is not None), default=None)

    def grow(self, groups: int) -> bool:
        """Are there more pages now, since there are so many groups?"""
        pages = len(self.counts)
        while groups > FULL * pages:
            pages *= 2
        more = pages - len(self.counts)
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
        self.index = PageIndex() if saved is None else PageIndex(*json.loads(saved))
        self.before = self.index.timer
        self.goes_together = may_go_together(self.plan)
        self.frontiers: dict[KeyText, float] = {}  # of groups that rows have reached, unless these are forgotten

    def take(self, come: Mapping[KeyText, Sequence[GroupRows]], watermark: int | None = None) -> Iterator[Journal]:
        """Rows reach these groups; or the watermark (in milliseconds) reaches those whose timers are due.

        What there is to report comes while it is worked out, group after group in one order: a batch that is done again
        reports the same in the same places.
        """
        if not self.found and watermark is None:
            self.index.grow(len(come))
        for numbers in self._some_pages(come, watermark):
            yield self._step(numbers, come, watermark)

    def finish(self) -> ShardTimers:
        """Write the index, and more pages if there are many groups."""
        index, pages = self.index, len(self.index.counts)
        if index.grow(sum(index.counts)):
            for number in [k for k, count in enumerate(index.counts[:pages]) if count]:
                page = self._open(number)
                there = self._by_page(page.keys)
                there.setdefault(number, [])
                self._deal(page, list(there.items()))
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
            page = self._open(number)
            yield from () if page.small is None else unbundled(self.runner, page.small)
            yield from (self._loaded_apart(key, each) for key, each in page.apart.items())

    def _deal(self, page: Page, there: Sequence[tuple[int, list[KeyText]]]) -> None:
        """Write the groups of a page where they lie from now on: half by half, so as to look at each a few times."""
        if len(there) == 1:
            self._write(there[0][0], page)
            return
        middle = len(there) // 2
        for half in (there[:middle], there[middle:]):
            self._deal(page.part({key for _, keys in half for key in keys}), half)

    def _some_pages(
        self, come: Mapping[KeyText, Sequence[GroupRows]], watermark: int | None
    ) -> Iterator[dict[int, list[KeyText]]]:
        """The pages that are concerned, a few at a time, with the groups that rows have reached."""
        if watermark is None:
            concerned = self._by_page(list(come))
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

    def _by_page(self, keys: Sequence[KeyText]) -> dict[int, list[KeyText]]:
        """The groups by their pages, in one order."""
        out: dict[int, list[KeyText]] = {}
        for key in sorted(keys):
            out.setdefault(_hash(key) // self.plan.buckets % len(self.index.counts), []).append(key)
        return out

    def _step(
        self, numbers: dict[int, list[KeyText]], come: Mapping[KeyText, Sequence[GroupRows]], watermark: int | None
    ) -> Journal:
        """The groups of these pages that are concerned take what has come."""
        pages = {number: self._open(number) if self.index.counts[number] else Page(None, {}) for number in numbers}
        keys = {n: numbers[n] if watermark is None else _due(pages[n], watermark) for n in numbers}
        then, reported = self._groups([pages[n].part(set(keys[n])) for n in numbers], keys, come, watermark)
        small, apart = then.small, then.apart
        place = {} if small is None else {key: k for k, key in enumerate(small.keys)}
        for n, page in pages.items():
            rest = page.part(set(page.keys) - set(keys[n]))
            stepped = [] if small is None else [small.part([place[key] for key in keys[n] if key in place])]
            both = joined([*([] if rest.small is None else [rest.small]), *stepped])
            loaded = rest.loaded | {key: then.loaded[key] for key in keys[n] if key in then.loaded}
            self._write(n, Page(both, rest.apart | {key: apart[key] for key in keys[n] if key in apart}, loaded))
        return reported

    def _groups(
        self,
        pages: list[Page],
        keys: Mapping[int, list[KeyText]],
        come: Mapping[KeyText, Sequence[GroupRows]],
        watermark: int | None,
    ) -> tuple[Page, Journal]:
        """The groups as they are to lie, but for those that are forgotten, and what they report.

        Most of the small ones take their rows together; the others are loaded, one after the other.
        """
        before = {key: each for page in pages for key, each in page.apart.items()}
        bundle = joined([page.small for page in pages if page.small is not None])
        together = None
        if bundle is not None and watermark is None and self.goes_together:
            together = take_together(self.runner, bundle, come)
        ready = set[KeyText]()
        if together is not None:
            ready = set(together.bundle.keys)
            self.frontiers |= {
                key: header["frontier"]
                for key, header in zip(together.bundle.keys, together.bundle.headers, strict=True)
            }
        if bundle is not None and ready:
            rest = [k for k, key in enumerate(bundle.keys) if key not in ready]
            bundle = bundle.part(rest) if rest else None
        loaded = {key: each for page in pages for key, each in page.loaded.items() if key not in ready}
        if bundle is not None and (rest := [k for k, key in enumerate(bundle.keys) if key not in loaded]):
            bundle = bundle.part(rest)
            loaded |= zip(bundle.keys, unbundled(self.runner, bundle), strict=True)
        stay: dict[KeyText, LoadedGroup] = {}
        small: list[tuple[KeyText, LoadedGroup]] = []
        apart: dict[KeyText, Apart] = {}
        reports = []
        for key in (key for some in keys.values() for key in some if key not in ready):
            was = before.get(key)
            group = loaded.pop(key, None) or (self.runner.new() if was is None else self._loaded_apart(key, was))
            done = self.runner.step(key, group, come.get(key, ()), watermark, self.store)
            reports.append(done.report)
            if not done.forgotten and watermark is None:
                self.frontiers[key] = done.then.ahead.frontier
            if not done.forgotten and fits(done.then):
                small.append((key, done.then))
            elif not done.forgotten:
                apart[key] = self._saved_apart(key, done.then)
            if was is not None and was.mark is not None and (key not in apart or apart[key].mark is None):
                self.store.delete(_LARGE, key, 0)
            if not done.forgotten and done.then.log is None and (key not in apart or apart[key].mark is None):
                stay[key] = done.then
        stepped = [*([] if together is None else [together.bundle]), *([bundled(self.runner, small)] if small else [])]
        reported = [] if together is None else together.journal
        if reports:
            reported = [*reported, *journal(self.plan, self.runner.tables, reports)]
        return Page(joined(stepped), apart, stay), reported

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

    def _open(self, number: int) -> Page:
        saved = must_get(self.store, _GROUPS, part=number)
        known: Page | None = cache.pop((cache.digest(saved), self.plan.digest))
        if known is not None:
            return known
        was = saved_by(self.plan, saved)
        page = opened(was, saved)
        return page if was is self.plan else self._moved(page, was)

    def _moved(self, page: Page, was: Plan) -> Page:
        """A page of a plan that the run had before. What lies apart is moved when it is loaded: it knows its plan."""
        small: list[tuple[KeyText, LoadedGroup]] = []
        apart = dict(page.apart)
        if page.small is not None:
            for key, each in zip(page.small.keys, unbundled(GroupRunner(was), page.small), strict=True):
                then = self.runner.moved(key, each, was, self.store)
                if fits(then):
                    small.append((key, then))
                else:
                    apart[key] = self._saved_apart(key, then)
        return Page(bundled(self.runner, small) if small else None, apart)

    def _write(self, number: int, page: Page) -> None:
        """Keep the page, or nothing if it is empty."""
        count, index = len(page.keys), self.index
        if count:
            state = packed(self.plan, page)
            self.store.put(_GROUPS, "", number, state)
            if page.loaded and count <= OPEN:
                size = sum(at_most(self.plan, each) for each in page.loaded.values())
                cache.put((cache.digest(state), self.plan.digest), page, len(state) + size)
        elif index.counts[number]:
            self.store.delete(_GROUPS, "", number)
        index.counts[number] = count
        index.dues[number] = min((due for _, due in page.timers()), default=None)


def once(runner: GroupRunner, come: Mapping[KeyText, Sequence[GroupRows]]) -> Iterator[Journal]:
    """All rows of these groups have come, and nothing follows: what there is to report, some groups at a time."""
    keys, store = list(come), MemoryStore()
    for k in range(0, len(keys), AT_ONCE):
        some = keys[k : k + AT_ONCE]
        done = [runner.step(key, runner.new(), come[key], None, store, end=True) for key in some]
        yield journal(runner.plan, runner.tables, [each.report for each in done])


def packed(plan: Plan, page: Page) -> bytes:
    """A page as one bytes object."""
    small, arrays = page.small, Arrays()
    header: dict[str, Any] = {"keys": [], "headers": []}
    header["apart"] = [[key, each.timer, each.mark] for key, each in page.apart.items()]
    if small is not None:
        header |= {"keys": small.keys, "headers": small.headers}
        arrays = small.to_arrays()
    for k, each in enumerate(page.apart.values()):
        if each.mark is None:
            arrays[f"{_APART}{k}"] = np.frombuffer(each.saved, np.uint8)
    return to_state(plan, header, arrays)


def opened(plan: Plan, saved: bytes) -> Page:
    """The inverse of `packed`."""
    header, arrays = from_state(plan, saved, _WHAT)
    apart = {}
    for k, (key, timer, mark) in enumerate(header["apart"]):
        apart[key] = Apart(timer, mark, arrays[f"{_APART}{k}"].tobytes() if mark is None else b"")
    small = Bundle.from_arrays(header["keys"], header["headers"], arrays) if header["keys"] else None
    return Page(small, apart)


def _due(page: Page, watermark: int) -> list[KeyText]:
    """The groups that time alone changes by now, in one order: in a page they lie as they were written last."""
    return sorted(key for key, timer in page.timers() if timer <= watermark)
