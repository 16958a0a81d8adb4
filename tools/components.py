"""Which jars do tests with real components need, and where do they lie?

    python tools/components.py

fetches a broker of Kafka, Spark's connector for it and PostgreSQL's JDBC driver with Maven, into a folder of the user's
cache; `FOGLINE_JARS` names another. What is there already is left alone.

Spark's connector is taken for the version of Spark that is installed; where that cannot be had, for the newest before
it, which serves as well. With it go the versions of the client that it was built against.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

BROKER = "4.2.1"
SCALA = "2.13"
# of Spark's connector -> of its token provider, of Kafka's client, of commons-pool2
CONNECTORS = {"4.2.0": ("4.0.0", "3.9.2", "2.12.1")}
POSTGRES = "42.7.14"
AVRO = "4.1.1"  # of Spark's Avro, where that of its own version cannot be had
COMMAND = "make components (or: python tools/components.py), which needs Maven (mvn) on the PATH"

Coordinate = tuple[str, str, str]


def folder() -> Path:
    """Where the jars lie."""
    named = os.environ.get("FOGLINE_JARS")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(cache) / "fogline" / "jars"


def broker_jars() -> list[Path]:
    """What a broker of Kafka runs with; empty: it was not fetched."""
    return sorted((folder() / "kafka").glob("*.jar"))


def connector_jars() -> list[Path]:
    """What Spark needs to read Kafka, Avro, and PostgreSQL through JDBC; empty: it was not fetched."""
    return sorted([*(folder() / "connector").glob("*.jar"), *(folder() / "avro").glob("*.jar")])


def main() -> None:
    """Fetch what is missing."""
    if not broker_jars():
        fetch("kafka", [("org.apache.kafka", f"kafka_{SCALA}", BROKER)], alone=False)
    if not connector_jars():
        for wanted in (version("pyspark"), *CONNECTORS):
            token, client, pool = CONNECTORS.get(wanted, (wanted, *next(iter(CONNECTORS.values()))[1:]))
            asked = [
                ("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA}", wanted),
                ("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}", token),
                ("org.apache.kafka", "kafka-clients", client),
                ("org.apache.commons", "commons-pool2", pool),
                ("org.postgresql", "postgresql", POSTGRES),
            ]
            if fetch("connector", asked, alone=True, must=wanted in CONNECTORS):
                break
    if not list((folder() / "avro").glob("*.jar")):
        for wanted in (version("pyspark"), AVRO):
            if fetch("avro", [("org.apache.spark", f"spark-avro_{SCALA}", wanted)], alone=True, must=False):
                break
    print(f"{len(broker_jars())} jars of a broker and {len(connector_jars())} for Spark: {folder()}")


def fetch(name: str, asked: list[Coordinate], *, alone: bool, must: bool = True) -> bool:
    """Jars into a subfolder, whole or not at all. `alone`: without what they depend on. False: it cannot be had."""
    maven = shutil.which("mvn")
    if maven is None:
        sys.exit("there is no Maven here (mvn); install it, such as by: apt-get install maven")
    to = folder() / name
    to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=to.parent) as made:
        pom = Path(made) / "pom.xml"
        pom.write_text(pom_of(asked, alone=alone), encoding="utf-8")
        words = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={made}/jars"]
        done = subprocess.run(words, capture_output=not must, check=False)
        if done.returncode == 0:
            shutil.rmtree(to, ignore_errors=True)
            (Path(made) / "jars").rename(to)
        elif must:
            sys.exit(f"Maven could not fetch {', '.join(':'.join(each) for each in asked)}")
        else:
            print(f"{':'.join(asked[0])} cannot be had here; trying another version")
    return done.returncode == 0


def pom_of(asked: list[Coordinate], *, alone: bool) -> str:
    """A project that depends on these and is nothing else."""
    other = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    listed = "\n".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{number}</version>"
        f"{other if alone else ''}</dependency>"
        for group, artifact, number in asked
    )
    return (
        "<project>\n  <modelVersion>4.0.0</modelVersion>\n"
        "  <groupId>fogline</groupId><artifactId>components</artifactId>"
        f"<version>1</version>\n  <dependencies>\n{listed}\n  </dependencies>\n</project>\n"
    )


if __name__ == "__main__":
    main()
