"""How do the parts of a repository become arrays on disk, and parts again?

`put_…` writes the arrays of a part and returns its entry in the manifest, which is plain JSON; `get_…` makes the part
of an entry, with its arrays mapped, not copied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from fogline.kernels.forest import Forest
from fogline.kernels.sorted import Sorted
from fogline.model import Rule
from fogline.repository.access.index import Index
from fogline.repository.access.indexed import IndexAccess
from fogline.repository.access.protocol import Access, readonly
from fogline.repository.access.sorted import SortedAccess
from fogline.repository.files import Files, Reference
from fogline.repository.history import Column
from fogline.repository.lattice import Choice, Lattice
from fogline.repository.others import ByOthers, Linear
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.transition import Transition
from fogline.repository.words import Words

Entry = dict[str, Any]


def put_rule(rule: Rule) -> Entry:
    """The entry of a rule: Rule(**entry) is the same again."""
    return {"given": dict(rule.given), "then": rule.then, "within": rule.within}


def put_column(column: Column, files: Files) -> Entry:
    """Write a column."""
    return {
        "values": files.put(column.values),
        "words": None if column.words is None else put_words(column.words, files),
    }


def get_column(saved: Mapping[str, Any], files: Files) -> Column:
    """The column of an entry."""
    return Column(files.get(saved["values"]), None if saved["words"] is None else get_words(saved["words"], files))


def put_words(words: Words, files: Files) -> list[Reference]:
    """Write words."""
    return [files.put(array) for array in words.arrays()]


def get_words(saved: list[Reference], files: Files) -> Words:
    """The words of an entry."""
    ends, letters = map(files.get, saved)
    return Words.from_arrays(ends, letters)


def put_lattice(lattice: Lattice, files: Files) -> Entry:
    """Write a lattice with its accesses; its rules are those of the repository."""
    choices = [
        {
            "rules": each.rules,
            "given": dict(each.given),
            "expected": each.expected,
            "measured": dict(each.measured),
            "access": _put_access(each.access, files),
        }
        for each in lattice.choices
    ]
    level_0 = {"values": files.put(lattice.values), "counts": files.put(lattice.counts)}
    return {"then": lattice.then, **level_0, "choices": choices}


def get_lattice(saved: Mapping[str, Any], rules: tuple[Rule, ...], files: Files) -> Lattice:
    """The lattice of an entry, in a repository with these rules."""
    choices = tuple(
        Choice(
            tuple(each["rules"]),
            each["given"],
            each["expected"],
            _get_access(each["access"], files),
            each["measured"],
        )
        for each in saved["choices"]
    )
    usable = tuple(rule for rule in rules if rule.then == saved["then"])
    return Lattice(saved["then"], usable, choices, files.get(saved["values"]), files.get(saved["counts"]))


def _put_access(access: Access, files: Files) -> Entry:
    if id(access) not in files.written:
        if isinstance(access, SortedAccess):
            arrays = {name: files.put(array) for name, array in access.table._asdict().items()}
            about = {"kind": "sorted", "lead": access.lead, "key": access.key, "others": access.others}
        else:
            assert isinstance(access, IndexAccess)
            arrays = {name: files.put(array) for name, array in access.index.arrays().items()}
            about = {"kind": "index", "names": access.names}
        files.written[id(access)] = {"arrays": arrays, **about}
    return files.written[id(access)]


def _get_access(saved: Entry, files: Files) -> Access:
    key = json.dumps(saved, sort_keys=True)
    if key not in files.read:
        arrays = {name: files.get(file) for name, file in saved["arrays"].items()}
        if saved["kind"] == "sorted":
            table = Sorted(**{name: readonly(array) for name, array in arrays.items()})
            files.read[key] = SortedAccess(table, saved["lead"], saved["key"], tuple(saved["others"]))
        else:
            files.read[key] = IndexAccess(Index.from_arrays(arrays), tuple(saved["names"]))
    return files.read[key]


def put_forest(forest: Forest, files: Files) -> Entry:
    """Write trees."""
    return {name: files.put(array) for name, array in forest._asdict().items()}


def get_forest(saved: Mapping[str, Any], files: Files) -> Forest:
    """The trees of an entry."""
    return Forest(**{name: readonly(files.get(file)) for name, file in saved.items()})


_NUMBERS = ("step", "oldest", "pad", "error", "without", "nothing", "error_last", "error_between")  # of a transition


def put_transition(transition: Transition, files: Files) -> Entry:
    """Write a transition."""
    return {
        "before": put_forest(transition.before, files),
        "between": None if transition.between is None else put_forest(transition.between, files),
        "grid": files.put(transition.grid),
        "whole": files.put(transition.whole),
        "widths": files.put(transition.widths),
        **{name: getattr(transition, name) for name in _NUMBERS},
    }


def get_transition(saved: Mapping[str, Any], files: Files) -> Transition:
    """The transition of an entry."""
    return Transition(
        get_forest(saved["before"], files),
        None if saved["between"] is None else get_forest(saved["between"], files),
        readonly(files.get(saved["grid"])),
        whole=readonly(files.get(saved["whole"])),
        widths=readonly(files.get(saved["widths"])),
        **{name: saved[name] for name in _NUMBERS},
    )


def put_others(others: ByOthers, files: Files) -> Entry:
    """Write what other attributes explain about one."""
    trees = {name: files.put(array) for name, array in others.trees._asdict().items()}
    lines = None if others.lines is None else [files.put(array) for array in others.lines]
    about = {name: getattr(others, name) for name in ("given", "step", "error", "without", "nothing")}
    return {"trees": trees, "lines": lines, "grid": files.put(others.grid), **about}


def get_others(saved: Mapping[str, Any], files: Files) -> ByOthers:
    """What other attributes explain, of an entry."""
    trees = Forest(**{name: readonly(files.get(file)) for name, file in saved["trees"].items()})
    lines = None if saved["lines"] is None else Linear(*(readonly(files.get(file)) for file in saved["lines"]))
    grid, about = readonly(files.get(saved["grid"])), (saved[name] for name in ("step", "error", "without", "nothing"))
    return ByOthers(tuple(saved["given"]), lines, trees, grid, *about)


def put_sensors(
    sensors: SensorModel | None, files: Files, transitions: Mapping[str, Entry] | None = None
) -> Entry | None:
    """Write a model of sensors; `transitions`: their entries, where they are written already."""
    if sensors is None:
        return None
    written = {name: put_transition(each, files) for name, each in sensors.transitions.items() if transitions is None}
    return {
        "names": sensors.names,
        "keys": sensors.keys,
        "longest": None if np.isinf(sensors.longest) else sensors.longest,
        "transitions": written if transitions is None else dict(transitions),
        "recent": [put_rule(rule) for rule in sensors.recent],
        "time": sensors.time,
        "sensors": [put_words(Words(part), files) for part in sensors.known],
        "times": files.put(sensors.times),
        "values": files.put(sensors.values),
    }


def get_sensors(saved: Mapping[str, Any] | None, files: Files) -> SensorModel | None:
    """The model of an entry."""
    if saved is None:
        return None
    return SensorModel(
        tuple(saved["names"]),
        tuple(saved["keys"]),
        np.inf if saved["longest"] is None else saved["longest"],
        {name: get_transition(each, files) for name, each in saved["transitions"].items()},
        tuple(Rule(**each) for each in saved["recent"]),
        saved["time"],
        tuple(get_words(each, files).texts for each in saved["sensors"]),
        files.get(saved["times"]),
        files.get(saved["values"]),
    )
