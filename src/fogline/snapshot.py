"""A monitor as one bytes object, and again a monitor that goes on bit for bit.

Saved are the live rows of each group, with the sums of logarithms of those in the answer, the newest readings and open
gaps of each sensor, and counters. Numbers are saved as they are. A snapshot belongs to one query, one repository and
one imputer: others are refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fogline.engine.store import join_groups, save_group, split_groups
from fogline.errors import SnapshotError
from fogline.impute.chain import Tally
from fogline.impute.scores import from_plain, to_plain
from fogline.queries import differing_fields
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.repository.sensors.state import SensorState
from fogline.rows.names import Kinds
from fogline.saved import Arrays, as_bytes, from_bytes, pack, unpack, whole

if TYPE_CHECKING:
    from fogline.monitor import Monitor


def save_monitor(monitor: Monitor) -> bytes:
    """The monitor as one bytes object."""
    header = {
        "query": monitor.query.fingerprint(),
        "repository": None if monitor.repository is None else monitor.repository.fingerprint,
        "imputer": _imputer(monitor),
        "clock": monitor.clock,
        "places": monitor.exact_limit,
        "counts": monitor.counts,
        "past": monitor.counts_of_gone,
        "hindsight": _hindsight(monitor),
        "eager": monitor.intake.eager,
        "tally": [0, 0.0] if monitor.chain is None else [monitor.chain.tally.revised, monitor.chain.tally.clipped],
        "scores": to_plain(monitor.intake.scored),
        "groups": [save_group(group) for group in monitor.groups.values()],
    }
    kinds = monitor.kinds
    arrays = join_groups(list(monitor.groups.values()), len(monitor.query.names), kinds.id, kinds.kept)
    if kinds.kept:
        arrays["kept_kind"] = as_bytes([], pa.struct([(name, kind or pa.null()) for name, kind in kinds.kept]))
    for k, kind in enumerate(monitor.kinds.by):
        arrays[f"by_{k}"] = as_bytes([key[k] for key in monitor.groups], kind)
    arrays["time_kind"] = as_bytes([], monitor.kinds.time or pa.null())
    arrays["shown_kind"] = as_bytes([], monitor.now_kind or pa.null())
    arrays["version_kind"] = as_bytes([], monitor.kinds.version or pa.null())
    if (state := _state(monitor)) is not None:
        arrays["sensors"] = np.frombuffer(state.to_bytes(), np.uint8)
    return pack(header, arrays)


def restore_monitor(
    saved: bytes, query: Query, repository: Repository | None, make: Callable[[int], Monitor]
) -> Monitor:
    """The monitor that was saved; `make` makes an empty one with that `exact_limit`. Another query is an error."""
    header, arrays = unpack(saved)
    with whole("snapshot of a monitor"):
        return _restored(header, arrays, query, repository, make)


def _restored(
    header: dict[str, Any], arrays: Arrays, query: Query, repository: Repository | None, make: Callable[[int], Monitor]
) -> Monitor:
    _check(header, query, repository)
    monitor = make(header["places"])
    if header["imputer"] != _imputer(monitor):
        raise SnapshotError(
            f"this snapshot was taken with {header['imputer'] or 'no imputer of your own'}, and now there is "
            f"{_imputer(monitor) or 'none'}; restore it with the imputer it was taken with."
        )
    state = _state(monitor)
    if (state is None) is ("sensors" in arrays):
        what = "remembered" if state is None else "did not remember"
        raise SnapshotError(f"this snapshot was taken by a monitor that {what} sensors' readings; see `remember`.")
    if header["hindsight"] != _hindsight(monitor):
        raise SnapshotError(
            f"this snapshot was taken {'with' if header['hindsight'] else 'without'} hindsight; restore it with "
            f"hindsight={header['hindsight']}."
        )
    if state is not None:
        state.load(arrays["sensors"].tobytes())
    monitor.clock, monitor.counts, monitor.counts_of_gone = header["clock"], header["counts"], header["past"]
    if monitor.chain is not None:
        monitor.chain.tally = Tally(*header["tally"])
    monitor.intake.scored = from_plain(header["scores"])
    monitor.intake.eager = header.get("eager", False)  # snapshots of before do not state it
    _restore_groups(monitor, header, arrays)
    return monitor


def _state(monitor: Monitor) -> SensorState | None:
    return monitor.intake.state


def _hindsight(monitor: Monitor) -> bool:
    return monitor.chain is not None and monitor.chain.hindsight


def _imputer(monitor: Monitor) -> str | None:
    """The name of the user's own imputer."""
    return None if monitor.imputer is None or monitor.chain is None else monitor.chain.imputers[0].name


def _check(header: dict[str, Any], query: Query, repository: Repository | None) -> None:
    if header["query"] != query.fingerprint():
        was, now = json.loads(header["query"]), json.loads(query.fingerprint())
        raise SnapshotError(
            f"this snapshot answers another query: {differing_fields(was, now)}. Restore it with the query that it was "
            "taken with, or begin with a new monitor."
        )
    if header["repository"] != (None if repository is None else repository.fingerprint):
        mark = header["repository"]
        need = "no repository" if mark is None else f"another repository, with the fingerprint {mark}"
        raise SnapshotError(
            f"this snapshot was taken with {need}; restore it with the one it was taken with (an older version of a "
            "folder: Repository.load(folder, fingerprint))."
        )


def _restore_groups(monitor: Monitor, header: dict[str, Any], arrays: Arrays) -> None:
    query = monitor.query
    by = [from_bytes(arrays[f"by_{k}"]) for k in range(len(query.by)) if f"by_{k}" in arrays]
    groups, id_kind = split_groups(header["groups"], arrays, query, monitor._new_group)
    keys = list(zip(*(values for values, _ in by), strict=True)) if query.by else [()] * len(groups)
    monitor.groups = dict(zip(keys, groups, strict=True))
    kinds = [from_bytes(arrays[name])[1] for name in ("shown_kind", "version_kind", "time_kind")]
    kinds += [id_kind, *(kind for _, kind in by)]
    monitor.now_kind, version, time, names, *keyed = (None if pa.types.is_null(kind) else kind for kind in kinds)
    kept = from_bytes(arrays["kept_kind"])[1] if "kept_kind" in arrays else ()
    seen = tuple((field.name, None if pa.types.is_null(field.type) else field.type) for field in kept)
    monitor.kinds = Kinds(time, names, tuple(keyed), version, seen)
