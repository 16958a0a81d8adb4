"""How is state written, and whose is it?

A magic word with the version, the digest of the plan, then a value: a header and arrays with their checksum,
compressed. The digest is compared before anything else is read: state of another plan (another query, clock, lateness,
repository, number of buckets) is refused, with the names of what differs, and no array of it reaches a kernel.

What lies beside a state, under the same key, is a value alone: the state knows whose it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeVar

import pyarrow as pa

from fogline.errors import SnapshotError, other_format
from fogline.saved import Arrays, pack, unpack

MAGIC = b"FOGSTATE\x04"  # the last byte is the version of the format
WAY_OUT = "Go on with the old one, or begin with a new checkpoint (and a new output)."

_CODEC = pa.Codec("zstd", 1)  # to a quarter, in a tenth of the time that the engine takes to carry the rest
_DENSEST = 65_536  # how many bytes one that is compressed can stand for, at the very most
_DIGEST = slice(len(MAGIC), len(MAGIC) + 16)


class Owner(Protocol):
    """Whose a state is: a plan of a query."""

    @property
    def digest(self) -> bytes:
        """What state of this plan begins with: 16 bytes."""

    @property
    def described(self) -> Mapping[str, str]:
        """What makes it this plan, for people."""

    @property
    def formers_by_digest(self) -> Mapping[bytes, Self]:
        """The plans that the run had before."""


P = TypeVar("P", bound=Owner)


def to_state(plan: Owner, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """What is kept between calls, as one bytes object."""
    return MAGIC + plan.digest + to_value({**header, "plan": plan.described}, arrays)


def saved_by(plan: P, saved: bytes) -> P:
    """The plan that a state was saved with: this one, or this one with a repository that the run had before."""
    digest = bytes(saved[_DIGEST])
    return plan if digest == plan.digest else plan.formers_by_digest.get(digest, plan)


def from_state(plan: Owner, saved: bytes, what: str) -> tuple[dict[str, Any], Arrays]:
    """The inverse of `to_state`, for the plan that it was saved with and no other."""
    if saved[: len(MAGIC) - 1] != MAGIC[:-1] or len(saved) < _DIGEST.stop:
        raise SnapshotError(f"this is no {what}, or a part of one: the checkpoint is damaged. Put back a good copy.")
    if saved[len(MAGIC) - 1] != MAGIC[-1]:
        known = "begin with a new checkpoint (and a new output)"
        raise SnapshotError(other_format(f"this {what}", saved[len(MAGIC) - 1], MAGIC[-1], known))
    belongs = saved[_DIGEST] == plan.digest
    header, arrays = from_value(saved[_DIGEST.stop :], what)
    if not belongs and header["plan"] == plan.described:
        raise SnapshotError(f"this {what} is damaged: its first bytes are not those that were written. {WAY_OUT}")
    if not belongs:
        raise SnapshotError(f"this {what} is that of another query: {differing(header['plan'], plan.described)}")
    return header, arrays


def to_value(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """A header and arrays as one bytes object, compressed."""
    packed = pack(dict(header), arrays)
    pressed: bytes = _CODEC.compress(packed, asbytes=True)
    return len(packed).to_bytes(8, "little") + pressed


def from_value(saved: bytes, what: str) -> tuple[dict[str, Any], Arrays]:
    """The inverse of `to_value`. A length that no content of this size can have takes no memory: it is refused."""
    length = int.from_bytes(saved[:8], "little")
    if length > _DENSEST * len(saved):
        raise SnapshotError(f"this {what} is damaged: it claims {length:,} bytes, which are not in it.")
    try:
        packed = _CODEC.decompress(memoryview(saved)[8:], length, asbytes=True)
    except (OSError, ValueError, pa.ArrowException):
        raise SnapshotError(f"this {what} is cut short or damaged.") from None
    return unpack(packed, what)


def differing(was: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What differs between two descriptions of plans, and the way out.

    >>> differing({"by": '["g"]', "lateness": "5.0"}, {"lateness": "0.0"})[:60]
    'lateness was 5.0 and is now 0.0, by was ["g"] and is now not'
    """
    names = [name for name in dict.fromkeys((*now, *was)) if was.get(name) != now.get(name)]
    each = [f"{name} was {was.get(name, 'not given')} and is now {now.get(name, 'not given')}" for name in names]
    return f"{', '.join(each)}. {WAY_OUT}"
