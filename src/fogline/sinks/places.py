"""Which sink a text names, and in which types a library gets record batches."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

import pyarrow as pa

from fogline.errors import FoglineError, QueryError, did_you_mean
from fogline.files.listing import absolute, is_local, must_be_apart, plain
from fogline.output.sink import Sink, places_of


def cast_to(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a batch, in their order, as those of a schema."""
    columns = []
    for each, field in zip(batch.columns, schema, strict=True):
        plain = each.dictionary_decode() if pa.types.is_dictionary(each.type) else each
        if isinstance(plain.type, pa.BaseExtensionType) and plain.type != field.type:
            plain = pa.array([None if value is None else str(value) for value in plain.to_pylist()], pa.string())
        columns.append(plain if plain.type == field.type else plain.cast(field.type))
    return pa.record_batch(columns, schema=schema)


@contextmanager
def streamed(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, to: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[Any]:
    """A reader over batches, each made ready by `to`.

    What goes wrong in them is raised as it was: a library would make an error of its own of it.
    """
    failed: list[Exception] = []

    def ready() -> Iterator[pa.RecordBatch]:
        try:
            for each in batches:
                yield to(each)
        except Exception as error:
            failed.append(error)
            raise

    try:
        yield pa.RecordBatchReader.from_batches(schema, ready())
    except Exception:
        if failed:
            raise failed[0] from None
        raise


# --- Which sink a text names ------------------------------------------------------------------------------------------
#
# `postgresql://user@host:port/database?table=NAME`, `delta:PATH`, `kafka://host:port/topic`,
# `webhook+https://host/path`; anything without a scheme is the path of a folder. `${NAME}` in a text stands for a
# variable of the environment, so that secrets need not be typed: a command line is seen by others, and kept in a
# history. A variable holds a password as it is, whatever characters that has, or a whole address.
#
# Of many receivers of web requests the path is the secret. So of a web address nothing but scheme and host is ever
# shown, and behind the host only plain words may be typed: small letters, or a short number.

# scheme -> module of this room, class with `from_url`
SCHEMES = {
    "postgresql": ("postgres", "PostgresSink"),
    "postgres": ("postgres", "PostgresSink"),
    "delta": ("delta", "DeltaSink"),
    "kafka": ("kafka", "KafkaSink"),
    "webhook+http": ("alerts", "Webhook"),
    "webhook+https": ("alerts", "Webhook"),
}
SECRETS = re.compile(r"password|passwd|secret|token|api_?key|access_?key|^(?:key|sig|auth)$", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_PLAIN = re.compile(r"(?:[a-z]{1,15}(?:[._-][a-z]{1,15}){0,3}|v?[0-9]{1,4})?")  # a word of a path that is no secret
_OPEN = re.compile(r"postgres(?:ql)?|kafka|jdbc|file|hdfs|dbfs|s3[an]?|gs|az|abfss?|adl")  # whose paths may be shown
_BEFORE_HOST = re.compile(r"[^:/]+://[^/?]*@")  # with what is in it: user and password


def sink_for(url: str, *, typed: bool = False) -> Sink:
    """The sink that a text names. `typed`: the text was typed into a command line, and must not hold a secret."""
    if typed:
        refuse_secret(url)
    if not url.strip():
        raise QueryError(
            "a place to write to is empty; name one. (A variable of the shell that is not set gives an empty text.)"
        )
    whole = plain(expanded(url))
    found = _SCHEME.match(whole)
    if found is None:
        from fogline.output.folder_sink import FolderSink

        return FolderSink.at(whole)
    known = SCHEMES.get(found[1].lower())
    if known is None:
        raise QueryError(
            f"there is no sink {found[1]!r}, as in {shown(url)!r}; it may be {', '.join(SCHEMES)}, or a folder's path."
            f"{did_you_mean(found[1], SCHEMES)}"
        )
    if _split(whole) is None or not whole.isprintable():
        raise QueryError(f"the address behind {found[1]}: cannot be read; check its brackets and special characters.")
    made: Callable[[str], Sink] = getattr(import_module(f"fogline.sinks.{known[0]}"), known[1]).from_url
    try:
        return made(whole)
    except FoglineError:
        raise
    except ValueError:  # of the parts of an address
        raise QueryError(f"{shown(url)!r} is no address that can be read; look at its host and port.") from None


def sinks_of(sinks: Sequence[Sink | str], folder: str, stream: str | None = None) -> tuple[Sink, ...]:
    """What a run was given as sinks, as sinks: objects with `put`, or texts that name places.

    `folder`: its own; `stream`: the files that it reads. Neither may be among the places.
    """
    places = tuple(sink_for(each) if isinstance(each, str) else each for each in sinks)
    for each in places:
        if not callable(getattr(each, "put", None)):
            raise FoglineError(f"a sink is an object with put(number, changes, rejects, health), not {each!r}.")
        if stream is not None and (path := getattr(each, "path", None)) is not None:
            must_be_apart(stream, str(path))
    refuse_overlaps(places, folder)
    return places


def refuse_overlaps(sinks: Sequence[Sink], folder: str) -> None:
    """One place twice, or folders in one another: files of one would be taken for the other's, or removed with them.

    `folder`: the run's own.
    """
    if twice := [place for place, count in Counter(places_of(sinks)).items() if count > 1]:
        raise QueryError(f"{twice[0]} is named twice as a place to write to; each batch goes there once.")
    paths = [str(path) for sink in sinks if (path := getattr(sink, "path", None)) is not None and is_local(str(path))]
    local = [Path(absolute(each)).resolve() for each in ([folder] if is_local(folder) else []) + paths]
    for k, one in enumerate(local):
        for other in local[k + 1 :]:
            if one == other or one in other.parents or other in one.parents:
                raise QueryError(
                    f"{str(one)!r} and {str(other)!r} are one folder, or one lies in the other; choose two "
                    "folders beside each other."
                )


def expanded(url: str) -> str:
    """The text with variables of the environment in their places; one that is not set is an error.

    In place of a password, and behind a question mark, characters that mean something in an address are written so that
    they do not.
    """
    before = _BEFORE_HOST.match(url)
    head, query = 0 if before is None else before.end(), url.find("?")

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise QueryError(f"{shown(url)!r} names the variable {found[1]}, which is not set in the environment.")
        literal = found.start() < head or 0 <= query < found.start()
        return quote(os.environ[found[1]], safe="") if literal else os.environ[found[1]]

    return _VARIABLE.sub(value, url)


def refuse_secret(url: str) -> None:
    """A password in a command line is seen by others: it comes from the environment or a file."""
    if not has_secret(url) and _may_hold_secret(url):
        raise QueryError(
            f"{shown(url)!r} may hold a secret beside its host, and others can see a command line. Write "
            f"${{NAME}} there, and put the secret into that variable of the environment. (Plain words in small "
            "letters, and numbers of up to four digits, may be typed.)"
        )
    if has_secret(url):
        raise QueryError(
            f"{shown(url)!r} holds a password, and others can see a command line. Write ${{NAME}} there, and put "
            "the password into that variable of the environment (or, for PostgreSQL, into PGPASSWORD or "
            "~/.pgpass)."
        )


def has_secret(url: str) -> bool:
    """Whether a text holds something that should not be seen; a variable's name may be."""
    url = url.removeprefix("delta:")
    parts = _split(url)
    if parts is None or "//" not in url:
        return "@" in url and _SCHEME.match(url) is not None
    secrets = [parts.password or "", *(value for name, value in parse_qsl(parts.query) if SECRETS.search(name))]
    return any(each and not _VARIABLE.fullmatch(each) for each in secrets)


def _may_hold_secret(url: str) -> bool:
    """Whether a web address has anything but plain words beside its host; what a variable holds is not typed."""
    parts = _split(url)
    if parts is None or not parts.scheme.startswith(("http", "webhook")):
        return False
    pairs = parse_qsl(parts.query, keep_blank_values=True, separator="&")
    words = [*parts.path.split("/"), *(each for pair in pairs for each in pair), parts.fragment, parts.username or ""]
    return not all(_PLAIN.fullmatch(_VARIABLE.sub("", each)) for each in words)


def shown(url: str) -> str:
    """A text as it may be shown: without password, and without what looks like one; of a web address, the host alone.

    >>> shown("postgresql://me:hush@host:5432/db?table=mine&password=hush")
    'postgresql://me@host:5432/db?table=mine&password=…'
    >>> shown("webhook+https://host:8443/services/hush")
    'webhook+https://host:8443/…'
    """
    if url.startswith("delta:"):
        return f"delta:{shown(url.removeprefix('delta:'))}"
    parts, scheme = _split(url), _SCHEME.match(url)
    if scheme is None:
        return url
    if parts is None or "//" not in url:
        known = _OPEN.fullmatch(scheme[1].lower()) is not None and "@" not in url
        return url if known else f"{scheme[1]}:…"
    at = parts.netloc.rpartition("@")
    if not _OPEN.fullmatch(parts.scheme):
        more = parts.path.strip("/") or parts.query or parts.fragment
        return f"{parts.scheme}://{at[2]}{'/…' if more else ''}"
    netloc = f"{at[0].partition(':')[0]}@{at[2]}" if at[1] else parts.netloc
    words = (pair.partition("=") for pair in parts.query.split("&") if pair)
    query = "&".join(f"{name}{eq}{'…' if SECRETS.search(name) else value}" for name, eq, value in words)
    return f"{parts.scheme}://{netloc}{parts.path}{'?' if query else ''}{query}"


def joined(parts: SplitResult) -> str:
    """An address of its parts. (`urlunsplit` leaves out the // where no host is named: libpq would know no address.)

    >>> joined(urlsplit("postgresql:///db?host=/tmp"))
    'postgresql:///db?host=/tmp'
    """
    return f"{parts.scheme}://{parts.netloc}{parts.path}{'?' if parts.query else ''}{parts.query}"


def _split(url: str) -> Any:
    try:
        return urlsplit(url)
    except ValueError:  # such as an address that is not closed
        return None


def needs(package: str, extra: str, what: str) -> None:
    """An error that names the extra, where a library is not installed."""
    if find_spec(package) is None:
        raise FoglineError(f"{what} needs {package}, which is not installed: pip install 'fogline[{extra}]'")
