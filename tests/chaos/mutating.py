"""How is something that was written damaged, and how may what reads it end?

Bytes are cut short at any place, one byte of them is changed in each bit or as a whole, pieces are left out, repeated
or exchanged. Small ones in every way, large ones at places that a seed draws.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from fogline.errors import FoglineError
from fogline.show import printable

ALL = 600  # bytes up to which every truncation and every flipped bit is tried


def damaged(whole: bytes, rng: random.Random, most: int) -> Iterator[tuple[str, bytes]]:
    """Copies that differ from the whole, at most so many, each with what was done to it."""
    for k, at in enumerate(_places(len(whole), rng, most // 3)):
        yield f"cut after {at} bytes", whole[:at]
        bit = 1 << (k % 8)
        yield f"byte {at}, bit {k % 8} flipped", _changed(whole, at, whole[at] ^ bit)
        yield f"byte {at} replaced", _changed(whole, at, rng.choice([b for b in range(256) if b != whole[at]]))
    yield "one byte more", whole + b"\0"
    if len(whole) > 16:
        a, b = sorted(rng.sample(range(len(whole)), 2))
        yield f"bytes {a} to {b} left out", whole[:a] + whole[b:]
        if any(whole[a:b]):
            yield f"bytes {a} to {b} zeroed", whole[:a] + bytes(b - a) + whole[b:]


def every_bit(whole: bytes) -> Iterator[tuple[str, bytes]]:
    """Every single bit flipped, every truncation."""
    for at in range(len(whole)):
        yield f"cut after {at} bytes", whole[:at]
        for bit in range(8):
            yield f"byte {at}, bit {bit} flipped", _changed(whole, at, whole[at] ^ (1 << bit))


def mutated(text: bytes, rng: random.Random, words: tuple[bytes, ...] = ()) -> bytes:
    """A text with some of it changed: bytes, pieces, words of its language, or much of one thing."""
    made = bytearray(text)
    for _ in range(rng.randint(1, 6)):
        at, end = sorted(rng.randint(0, len(made)) for _ in range(2))
        way = rng.randrange(7)
        if way == 0 and made:
            made[rng.randrange(len(made))] = rng.randrange(256)
        elif way == 1:
            del made[at : min(end, at + rng.randint(1, 40))]
        elif way == 2:
            made[at:at] = made[at : min(end, at + 60)]
        elif way == 3 and words:
            made[at:at] = rng.choice(words)
        elif way == 4 and words:
            made[at : min(end, at + 8)] = rng.choice(words)
        elif way == 5:
            made[at:at] = bytes([rng.choice(b"[{9- \n(\\%")]) * rng.choice((1, 3, 3000))
        elif way == 6:
            made[at:at] = rng.choice(_ODD)
    return bytes(made)


_ODD = (
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", "\u202e\u200b\U0001f4a5".encode(), b"\x1b[31m", b"1e999", b"nan", b"-0.0",
    b"9" * 5000, b"0x" + b"f" * 400, b"2024-13-45", b"!!python/object/apply:os.system [id]", b"&a", b"*a", b"<<: *a",
    b"${HOME}", b"\r\n", b"'", b'"', b": ", b"- ", b"#", b"|", b">", b"..", b"/", b"@", b"?", b"&", b"%00", b"%ff",
)  # fmt: skip


def refused(read: Callable[..., Any], *given: Any) -> str | None:
    """What an attempt was refused with; None: it was not. Anything but a FoglineError passes through."""
    try:
        read(*given)
    except FoglineError as error:
        return printable(str(error)) or "an error without a word"
    return None


def _places(length: int, rng: random.Random, most: int) -> list[int]:
    return list(range(length)) if length <= most else sorted(rng.sample(range(length), most))


def _changed(whole: bytes, at: int, byte: int) -> bytes:
    return whole[:at] + bytes([byte]) + whole[at + 1 :]
