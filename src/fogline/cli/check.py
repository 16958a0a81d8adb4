"""fogline check: a dry run over what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from fogline.cli.engine import Where
from fogline.cli.options import KafkaConfig, Settings, Stated, reads_files, starts_spark
from fogline.cli.terminal import (
    MOSTLY_REJECTED,
    Ahead,
    Clock,
    Lateness,
    MaybeMaster,
    MaybeRepository,
    Memory,
    QueryFiles,
    StreamFiles,
    app,
    echo,
    helpful,
    must_be_there,
    number_or_text,
    remark,
    repository_at,
)

if TYPE_CHECKING:
    from fogline.impute.chain import Chain
    from fogline.query import Query
    from fogline.runs.profile import Profile

LISTED = 20  # reasons


@app.command()
@reads_files
@starts_spark
def check(
    stream: StreamFiles,
    query: QueryFiles,
    repository: MaybeRepository = None,
    lateness: Lateness = "0",
    ahead: Ahead = "auto",
    clock: Clock = None,
    master: MaybeMaster = None,
    memory: Memory = None,
    kafka_config: KafkaConfig = None,
    *,
    stated: Stated,
    settings: Settings,
) -> None:
    """Try a query on your rows without running it.

    Shows which values are missing, and what would fill them. Shows which rows would be rejected, and how much memory a
    run needs.

    Each row is counted once: complete, with gaps, rejected, or a removal. The exit status is 3 if more than half would
    be rejected. Of a Kafka topic, the newest thousand messages are read.
    """
    with helpful():
        from fogline.cli.options import named, queries_of
        from fogline.files.unread import not_read
        from fogline.impute.chain import chain_of
        from fogline.kafka.client import is_topic, read_config
        from fogline.queries import each_of

        asked, options = each_of(queries_of(query)), stated()
        known = None if repository is None else repository_at(repository, settings(), memory)
        chains: dict[str | None, Chain | None] = {}
        for name, one in asked.items():
            with named(name):
                chains[name] = None if known is None else chain_of(known, one)
        must_be_there(stream)
        for text in not_read(stream):
            remark(text)
        how = {"lateness": number_or_text(lateness), "ahead": number_or_text(ahead)}
        from fogline.cli.jobs import profile, profile_of_topic

        where = None if is_topic(stream) else Where.chosen(stream, master, memory, settings())
        if where is None:
            remark("Runs in this process, on the newest messages.")
        useless = False
        for name, one in asked.items():
            if name is not None:
                echo(f"{name}:", bold=True)
            if where is None:
                found = profile_of_topic(stream, one, options, known, clock, read_config(kafka_config), **how)
            else:
                found = profile(stream, one, options, known, clock, where, **how)
            useless |= print_profile(found, one, chains[name])
        if useless:
            raise typer.Exit(MOSTLY_REJECTED)


def print_profile(found: Profile, query: Query, chain: Chain | None) -> bool:
    """What a dry run found, in words; what rejects most rows comes first. Returns whether there is such a thing."""
    from fogline.pipeline.rejects import mostly_rejected
    from fogline.show import count_of

    if (text := mostly_rejected(found.rows, found.rejected, found.reasons, "would be")) is not None:
        echo(text, fg="red", bold=True)
    echo(count_of(found.rows, "row"))
    kinds = {"complete": found.complete, "with gaps": found.incomplete, "rejected": found.rejected}
    kinds |= {"removals": found.removals} if query.gone is not None else {}
    for name, count in kinds.items():
        echo(f"  {name:<9} {count:>11,}  {count / max(found.rows, 1):>6.1%}")
    echo("Missing values, of rows that are not rejected")
    for j, name in enumerate(query.names):
        echo(f"  {name}: {gaps_of(found, name)}{filled_by(found, name, j, chain)}")
    for name in found.absent:
        echo(f"  Rules that need {name!r} are never used: the stream has no such column.")
    if found.rejected:
        echo("Rejected")
    for reason, count in found.reasons.most_common(LISTED):
        echo(f"  {count:,}: {reason}\n    for instance {found.examples[reason]}")
    if len(found.reasons) > LISTED:
        echo(f"  and {count_of(len(found.reasons) - LISTED, 'more reason')}")
    if any(reason.startswith(f"{name!r} is …") for reason in found.reasons for name in query.names):
        echo("  If a text means a missing value, add --null TEXT, or `nulls` in the query's `source`.")
    if found.expected is not None:
        from fogline.cli.engine import state

        state(found.expected)
    return text is not None


def gaps_of(found: Profile, name: str) -> str:
    """How many values of an attribute are missing, and why."""
    missing, outside = found.missing[name], found.outside[name]
    taken = max(found.complete + found.incomplete, 1)
    if not missing + outside:
        return "none"
    parts = [f"{missing:,} missing ({missing / taken:.1%})"] if missing or not outside else []
    parts += [f"{outside:,} outside its limits ({outside / taken:.1%})"] if outside else []
    return ", ".join(parts)


def filled_by(found: Profile, name: str, j: int, chain: Chain | None) -> str:
    """What will fill the gaps of attribute j, in the order in which it is asked."""
    if chain is None or not found.missing[name] + found.outside[name]:
        return ""
    from fogline.impute.chain import fillers

    return f"\n    filled by {', else by '.join(fillers(chain, j))}"
