"""What may a command be given for the Spark that it starts? Packages, jars, settings, as `spark-submit` takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from fogline.cli.options import Command, with_options
from fogline.errors import FoglineError

Settings = Callable[[], dict[str, str]]  # gives Spark's settings
OPTIONS = {
    "packages": Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP:NAME:VERSION", help="Maven packages that Spark fetches, with commas or repeated."),
    ],
    "jars": Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Jars that Spark loads, with commas or repeated.")
    ],
    "conf": Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark's own; may be repeated.")
    ],
}
PACKAGES, JARS = "spark.jars.packages", "spark.jars"
_PACKAGE = re.compile(r"[\w.-]+:[\w.-]+:[\w.+-]+")


def starts_spark(command: Command) -> Command:
    """The command with these options; it is passed one function in their place, `settings`."""
    return with_options(command, OPTIONS, "settings", lambda _, given: settings_of(**given))


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
    from fogline.files.paths import absolute, is_local

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
