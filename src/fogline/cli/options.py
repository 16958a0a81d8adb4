"""Options that several commands have. A command gets them, and one function in their place that makes sense of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fogline.errors import FoglineError, QueryError

if TYPE_CHECKING:
    from fogline.files.options import Options
    from fogline.kafka.client import TopicOptions
    from fogline.pipeline.limits import GroupLimits
    from fogline.queries import Asked
    from fogline.query import Query


Command = Callable[..., None]
SPARK, KAFKA, LIMITS, FILES = "Spark", "Kafka", "Limits", "How the files are written"  # parts of the help


def with_options(
    command: Command,
    options: Mapping[str, Any],
    name: str,
    made: Callable[[Mapping[str, Any], dict[str, Any]], Any],
    part: str,
) -> Command:
    """The command with these options, None where they are not given; it is passed a function `name` in their place.

    That calls `made` with the command's own options and these, when the command wants it: where errors are printed.
    `part`: the heading under which the help lists these options.

    `reads_topics` makes `run(stream, *, topic)` a command `run STREAM --starting … --avro-schema …`; where the body
    calls `topic()`, it gets what `topic_options` makes of them.
    """
    for kind in options.values():
        kind.__metadata__[0].rich_help_panel = part
    own = [each for key, each in signature(command, eval_str=True).parameters.items() if key != name]
    added = [Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for key, kind in options.items()]

    @wraps(command)
    def extended(*args: Any, **given: Any) -> None:
        found = {key: given.pop(key, None) for key in options}
        command(*args, **given, **{name: lambda: made(given, found)})

    both = sorted([*own, *added], key=lambda each: each.kind)
    extended.__dict__["__signature__"] = signature(command).replace(parameters=both)
    extended.__annotations__ = {each.name: each.annotation for each in both}
    return extended


# --- Spark's settings -------------------------------------------------------------------------------------------------

Settings = Callable[[], dict[str, str]]  # gives Spark's settings
OPTIONS = {
    "packages": Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP:NAME:VERSION",
            help="Maven packages for Spark to fetch. Separate several by commas, or repeat it.",
        ),
    ],
    "jars": Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Jar files for Spark to load. Separate several by commas, or repeat it."),
    ],
    "conf": Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A Spark setting, e.g. spark.executor.memory=4g. May be repeated."),
    ],
}
PACKAGES, JARS = "spark.jars.packages", "spark.jars"
_PACKAGE = re.compile(r"[\w.-]+:[\w.-]+:[\w.+-]+")


def starts_spark(command: Command) -> Command:
    """The command with these options; it is passed one function in their place, `settings`."""
    return with_options(command, OPTIONS, "settings", lambda _, given: settings_of(**given), SPARK)


def settings_of(
    packages: list[str] | None = None, jars: list[str] | None = None, conf: list[str] | None = None
) -> dict[str, str]:
    """Spark's settings; what is malformed is an error.

    >>> settings_of(packages=["a:b:1,c:d:2"], conf=["spark.jars.packages=e:f:3", "spark.executor.memory=2g"])
    {'spark.jars.packages': 'e:f:3,a:b:1,c:d:2', 'spark.executor.memory': '2g'}
    """
    settings = dict(map(_pair, conf or ()))
    for key, given, check in ((PACKAGES, packages, _package), (JARS, jars, _jar)):
        words = [word.strip() for each in given or () for word in each.split(",") if word.strip()]
        if words:
            settings[key] = ",".join([*filter(None, [settings.get(key)]), *map(check, words)])
    return settings


def _pair(given: str) -> tuple[str, str]:
    key, sign, value = given.partition("=")
    if not sign or not key.strip():
        raise FoglineError(f"--conf {given!r}: write a setting and its value, as in spark.executor.memory=4g.")
    if not key.strip().startswith("spark."):
        raise FoglineError(
            f"--conf {key.strip()!r}: Spark's settings begin with `spark.`, and others are ignored by it. One of "
            f"Hadoop's is passed as spark.hadoop.{key.strip()}."
        )
    return key.strip(), value.strip()


def _package(given: str) -> str:
    if _PACKAGE.fullmatch(given) is None:
        raise FoglineError(
            f"--packages {given!r}: write group:name:version, as in org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0."
        )
    return given


def _jar(given: str) -> str:
    from fogline.files.listing import absolute, is_local

    if not is_local(given):
        return given
    if not Path(given).is_file():
        raise FoglineError(f"--jars {given!r}: there is no such file.")
    return absolute(given)


def spark_options(master: str | None, memory: str | None, settings: Mapping[str, str]) -> str | None:
    """Which of the options that are Spark's were given; None: none."""
    given = {"--master": master, "--memory": memory, "--packages, --jars or --conf": settings}
    named = [name for name, value in given.items() if value]
    return " and ".join(named) + (" is" if len(named) == 1 else " are") if named else None


# --- Topics of Kafka --------------------------------------------------------------------------------------------------

Topics = Callable[[], Any]  # gives `kafka.client.TopicOptions`, which is imported then; None: files are read
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=KAFKA,
        help="File of Kafka client properties, e.g. security.protocol, sasl.username. ${NAME} in it reads an "
        "environment variable (default: the file named by FOGLINE_KAFKA_CONFIG).",
    ),
]
TOPIC_OPTIONS = {
    "starting": Annotated[
        str | None,
        typer.Option(
            help="Where to begin in a topic: `earliest`, `latest` or a time, e.g. 2024-05-01 (default: earliest)."
        ),
    ],
    "accept_loss": Annotated[
        bool | None,
        typer.Option("--accept-loss", help="Continue although the topic has deleted messages that were not read."),
    ],
    "avro_schema": Annotated[
        Path | None, typer.Option(help="Avro schema file (.avsc) of the topic's values (default: values are JSON).")
    ],
}


def reads_topics(command: Command) -> Command:
    """The command with these options; in their place it is passed one function, `topic`."""
    return with_options(command, TOPIC_OPTIONS, "topic", _topic, KAFKA)


def _topic(given: Mapping[str, Any], found: dict[str, Any]) -> Any:
    own = {name: given[name] for name in ("stream", "engine", "max_rows_per_batch", "kafka_config")}
    return topic_options(**own, **found)


def topic_options(
    stream: str,
    engine: str,
    max_rows_per_batch: int | None,
    kafka_config: Path | None,
    starting: str | None,
    accept_loss: bool | None,
    avro_schema: Path | None,
) -> TopicOptions | None:
    """How the topic is read; None: the stream is none, and nothing was stated that only a topic has."""
    from fogline.documents import read_small_text
    from fogline.files.reading import DELTA
    from fogline.kafka.client import EARLIEST, PER_BATCH, Address, TopicOptions, is_topic, read_config

    stated: dict[str, Any] = {"--starting": starting, "--accept-loss": accept_loss}
    stated |= {"--avro-schema": avro_schema}
    if stream.startswith(DELTA):
        raise FoglineError(
            "a Delta table is no stream for this command; where Spark knows Delta, watch it in Python: "
            "fl.spark.watch(spark.readStream.format('delta').load(…), query)."
        )
    if not is_topic(stream):
        given = next((name for name, value in stated.items() if value is not None), None)
        if given is not None:
            raise FoglineError(f"{given} is for topics, and {stream!r} is none; write kafka://host:port/topic.")
        return None
    Address.of(stream)
    if engine == "embedded":
        raise FoglineError("the embedded engine reads files; a topic is read by Spark: leave out --engine embedded.")
    begin = starting_at(starting or EARLIEST)
    avro = None if avro_schema is None else read_small_text(avro_schema)
    return TopicOptions(begin, max_rows_per_batch or PER_BATCH, bool(accept_loss), avro, read_config(kafka_config))


def starting_at(text: str) -> str:
    """`earliest`, `latest`, or the milliseconds of a time, as UTC where it has no zone.

    >>> starting_at("latest"), starting_at("1970-01-01T00:00:01Z")
    ('latest', '1000')
    """
    from datetime import UTC, datetime

    from fogline.kafka.client import EARLIEST, LATEST

    if text in (EARLIEST, LATEST):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise FoglineError(
            f"--starting is {text!r}; it may be {EARLIEST}, {LATEST}, or a time such as 2024-05-01T12:00:00Z."
        ) from None
    whole = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return str(int(whole.timestamp() * 1000))


# --- Limits of batches and groups -------------------------------------------------------------------------------------

StatedLimits = Callable[[], Any]  # gives `pipeline.limits.GroupLimits`, which is imported then
MaxRows = Annotated[
    int | None,
    typer.Option(
        help="Read at most this many rows per batch. Fewer take less memory and more time; the answer is the same. "
        "Spark takes whole files, at least one (default: 1,000,000 from files, 500,000 from a topic).",
        min=1,
    ),
]
LIMIT_OPTIONS = {
    "max_live": Annotated[
        int | None,
        typer.Option(
            help="How many rows one group may keep because they can still matter. An alarm comes at 80 % (default: no "
            "limit).",
            min=1,
        ),
    ],
    "max_state": Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="How large one group may become, e.g. 500MB or 2GB. An alarm comes at 80 % (default: half of this "
            "machine's memory).",
        ),
    ],
    "when_full": Annotated[
        str | None,
        typer.Option(
            metavar="stop|warn",
            help="What to do when a group exceeds its limit. `stop` ends the run before that batch; the same command "
            "with a higher limit continues without loss. `warn` continues with an alarm (default: stop).",
        ),
    ],
}


def limits_groups(command: Command) -> Command:
    """The command with these options; in their place it is passed one function, `limits`."""
    return with_options(command, LIMIT_OPTIONS, "limits", _limits, LIMITS)


def _limits(given: Mapping[str, Any], found: dict[str, Any]) -> GroupLimits:
    return group_limits(given["engine"], given["master"], **found)


def group_limits(
    engine: str, master: str | None, max_live: int | None, max_state: str | None, when_full: str | None
) -> GroupLimits:
    """The limits that were stated, and the usual ones."""
    from fogline.pipeline.limits import STOP, GroupLimits
    from fogline.runs.estimate import machine_memory

    here = engine == "embedded" or master is None or master.startswith("local")
    known = machine_memory() if here and max_state is None else None
    usual = None if known is None else known // 2
    return GroupLimits.of(max_live, usual if max_state is None else max_state, when_full or STOP)


def must_be_one_limit(engine: str, files: int | None, rows: int | None) -> None:
    """On Spark a batch is limited by files or by rows."""
    if engine != "embedded" and files is not None and rows is not None:
        raise FoglineError(
            "--files-per-batch and --max-rows-per-batch: Spark takes one of the two; leave one out, or use --engine "
            "embedded, which keeps to both."
        )


# --- Queries and their names ------------------------------------------------------------------------------------------
#
# `--query PATH` is a query; with several, each is called as its file states (`name:`), or as the file is. `--query
# NAME=PATH` states a name.


class GivenQuery(NamedTuple):
    """What stands behind `--query`."""

    path: Path
    name: str | None  # if it is stated there


def given(text: str) -> GivenQuery:
    """A path, or a name and a path.

    >>> given("gas=deep/gas.yaml").name, given("a=b/c.yaml").path.name, given("./a=b.yaml").name
    ('gas', 'c.yaml', None)
    """
    name, sign, path = text.partition("=")
    if not sign or not name or "/" in name or Path(text).exists():
        return GivenQuery(Path(text), None)
    return GivenQuery(Path(path), name.strip())


def queries_of(texts: list[str], keep: Sequence[str] = (), skyband: int | None = None) -> Asked:
    """The query, or several by their names; one alone has none, unless it is stated. For the rest see `_loaded`."""
    from fogline.queries import Queries

    found = [given(text) for text in texts]
    if len(found) == 1 and found[0].name is None:
        return _loaded(found[0].path, keep, skyband)
    named: dict[str, Query] = {}
    paths: dict[str, Path] = {}
    for path, stated in found:
        query, name = _loaded(path, keep, skyband), stated or name_in(path)
        if name in named:
            raise QueryError(
                f"two queries are called {name!r}: {str(paths[name])!r} and {str(path)!r}; give one another name, "
                f"as in --query NAME={path}."
            )
        named[name], paths[name] = query, path
    return Queries(named)


def _loaded(path: Path, keep: Sequence[str], skyband: int | None) -> Query:
    """The query of a file, with what commands say.

    `keep`: columns that come along beside those that it states, or `all`; `skyband`: in place of its own, if given.
    """
    from fogline.query import Query

    query = Query.load(path)
    query = query if skyband is None else replace(query, skyband=skyband)
    if not keep or query.keep is True:
        return query
    return replace(query, keep=True if "all" in keep else tuple(dict.fromkeys((*query.kept, *keep))))


def one_of(texts: list[str], command: str) -> Query:
    """The only query that a command answers."""
    from fogline.query import Query

    if len(texts) > 1:
        way = "; a repository for all has learnt by a query with the attributes of all" if command == "fit" else ""
        raise FoglineError(
            f"{command} looks at one query at a time, and {len(texts)} are given; name one of them{way}."
        )
    return Query.load(given(texts[0]).path)


def name_in(path: Path) -> str:
    """What a query's file calls it: its `name:`, or else the file's own name."""
    from fogline.documents import read_document

    values = read_document(path, names=("name",))
    stated = values.get("name") if isinstance(values, dict) else None
    if stated is not None and not isinstance(stated, str):
        raise QueryError(f"the name in {str(path)!r} is {stated!r}; it is a text.")
    return stated or path.stem


def options_of(texts: list[str]) -> Options:
    """How files are to be read, as the queries' files state it together."""
    from fogline.files.options import Options

    found: dict[str, tuple[object, Path]] = {}
    for path in (given(text).path for text in texts):
        for name, value in Options.load(path).to_dict().items():
            before, other = found.setdefault(name, (value, path))
            if before != value:
                raise QueryError(
                    f"the queries' files state two ways to read one stream: {name} is {before!r} in {str(other)!r} and "
                    f"{value!r} in {str(path)!r}; let them agree."
                )
    return Options.from_dict({name: value for name, (value, _) in found.items()})


@contextmanager
def named(name: str | None) -> Iterator[None]:
    """Errors name the query that they are about, where there are several."""
    try:
        yield
    except FoglineError as error:
        raise error if name is None else type(error)(f"query {name!r}: {error}") from None


# --- How files are read -----------------------------------------------------------------------------------------------

Stated = Callable[[], Any]  # gives `files.options.Options`, which is imported then
READING_OPTIONS = {
    "separator": Annotated[
        str | None, typer.Option(help="Field separator, e.g. ';' or 'tab' (default: detected per file).")
    ],
    "decimal": Annotated[
        str | None, typer.Option(help="Decimal mark of numbers, '.' or ',' (default: detected per file).")
    ],
    "encoding": Annotated[
        str | None, typer.Option(help="Text encoding, e.g. utf-8 or cp1252 (default: detected per file).")
    ],
    "null": Annotated[
        list[str] | None,
        typer.Option(
            help="A word or number that means missing, e.g. -999. May be repeated. `n/a`, `NULL`, `-`, `?`, `k.A.` and "
            "the like are known."
        ),
    ],
    "header": Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line names the columns (default: it does)."),
    ],
    "time_format": Annotated[
        str | None,
        typer.Option(help="Format of times that are not ISO 8601, e.g. '%d.%m.%Y %H:%M' (default: detected)."),
    ],
    "zone": Annotated[
        str | None, typer.Option(help="Time zone of times without one, e.g. Europe/Berlin (default: UTC).")
    ],
}


def reads_files(command: Command) -> Command:
    """The command with these options; in their place it is passed one function, `stated`, that makes `Options` of them.

    That reads the query's file, where the command has one.
    """
    return with_options(command, READING_OPTIONS, "stated", _stated, FILES)


def _stated(given: Mapping[str, Any], found: dict[str, Any]) -> Any:
    from fogline.files.options import Options

    named, files = dict(found), given.get("query")
    nulls = named.pop("null")
    options = Options() if files is None else options_of(files if isinstance(files, list) else [str(files)])
    return options.stated(**named, nulls=(*(options.nulls or ()), *nulls) if nulls else None)
