"""What does a folder look like that many hands have filled for years?

python -m tests.messy.make FOLDER

German, English and machine-made files side by side: separators, decimal marks, encodings, zones, nulls, copies, packed
and torn files, files of other kinds. `make` writes them and returns what a reader should find: which sensors' rows can
be taken, at which instants, and of which files something is to be named. Every hour is of Berlin unless it has a zone.
"""

from __future__ import annotations

import gzip
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

QUERY = """\
attributes: {Höhe: max, Druck: min}
id: Fühler
time: Zeit
lifetime: 5 days
source: {zone: Europe/Berlin}
"""
HEADER = ("Fühler", "Zeit", "Höhe", "Druck")


@dataclass
class Expected:
    """What a reader should find."""

    taken: dict[str, str] = field(default_factory=dict)  # sensor -> its instant, in UTC
    heights: dict[str, float | None] = field(default_factory=dict)  # sensor -> its height; None: missing
    bad_files: dict[str, str] = field(default_factory=dict)  # file -> a part of the reason
    bad_lines: set[tuple[str, int | None, str]] = field(default_factory=set)  # file, line, a part of the reason
    not_read: tuple[str, ...] = ("Bericht.xlsx", "README.txt", "halb.csv.part", "neu.csv.tmp")

    def take(self, sensor: str, instant: str, height: float | None) -> None:
        """This row can be taken."""
        self.taken[sensor], self.heights[sensor] = instant, height


def make(folder: Path) -> Expected:
    """Write the files."""
    found = Expected()
    (folder / "Werk 2").mkdir(parents=True)
    (folder / "_alt").mkdir()
    _german(folder, found)
    _others(folder, found)
    _packed(folder, found)
    _columns(folder, found)
    _strays(folder, found)
    return found


def _german(folder: Path, found: Expected) -> None:
    rows = [
        "Süd 1;01.05.2024 12:00:00;1.234,5;0,5",
        "Süd 2;01.05.2024 12:10:00;-;1,5",
        "Süd 3;01.05.2024 12:20:00;12,25;N/A",
        "Süd 4;01.05.2024 12:30:00;defekt;1,0",
        "Süd 5;01.05.2024 12:40:00;7,5",
        "Süd 6;31.04.2024 12:50:00;7,5;1,0",
        "Süd 1;01.05.2024 12:00:00;1.234,5;0,5",
        '"Süd ""7""";01.05.2024 13:00:00;"8,5";',
        "Süd 8;01.05.2024 13:10:00;1.5;1,0",
    ]
    name = "01 Messwerte.csv"
    (folder / name).write_bytes("\r\n".join([";".join(HEADER), *rows, ""]).encode("cp1252"))
    found.take("Süd 1", "2024-05-01T10:00:00", 1234.5)
    found.take("Süd 2", "2024-05-01T10:10:00", None)
    found.take("Süd 3", "2024-05-01T10:20:00", 12.25)
    found.take('Süd "7"', "2024-05-01T11:00:00", 8.5)
    found.bad_lines |= {
        (name, 5, "'Höhe' is 'defekt', which is not a number"),
        (name, 6, "the line cannot be read: it has 3 cells, and the file 4 columns"),
        (name, 7, "'Zeit' is '31.04.2024 12:50:00', which is not a timestamp"),
        (name, 10, "numbers here have a decimal comma"),
    }


def _others(folder: Path, found: Expected) -> None:
    """Byte order marks, UTF-16, English numbers, zones."""
    (folder / "02 Excel.csv").write_bytes(
        (
            "\ufeff" + ";".join(HEADER) + "\nNord 1;2024-05-02T10:00:00Z;3,5;2\nNord 2;2024-05-02T12:30:00+02:00;;2\n"
        ).encode()
    )
    found.take("Nord 1", "2024-05-02T10:00:00", 3.5)
    found.take("Nord 2", "2024-05-02T10:30:00", None)
    (folder / "03 unicode.csv").write_text(
        "\t".join(HEADER) + "\nWest 1\t02.05.2024 13:00:00\t4,5\t2\n", encoding="utf-16"
    )
    found.take("West 1", "2024-05-02T11:00:00", 4.5)
    (folder / "04 english.csv").write_text(",".join(HEADER) + "\nEast 1,2024-05-02 14:00:00,5.5,2\nEast 2,noon,5.5,2\n")
    found.take("East 1", "2024-05-02T12:00:00", 5.5)
    found.bad_lines.add(("04 english.csv", 3, "'Zeit' is 'noon', which is not a timestamp"))
    lines = '{"Fühler": "J 1", "Zeit": "2024-05-03T00:00:00Z", "Höhe": 6.5, "Druck": 1}\n{"Fühler": "J 2", "Zei\n'
    (folder / "05 log.jsonl").write_text(lines, encoding="utf-8")
    found.take("J 1", "2024-05-03T00:00:00", 6.5)
    found.bad_lines.add(("05 log.jsonl", 2, "the line cannot be read: it is no JSON object"))


def _packed(folder: Path, found: Expected) -> None:
    """Packed files, whole and torn; Parquet as pandas writes it, whole and torn."""
    text = "Druck,Bemerkung,Zeit,Fühler,Höhe\n2,ok,2024-05-03T01:00:00Z,Z 1,7.5\n"
    (folder / "06 sort.csv.gz").write_bytes(gzip.compress(text.encode()))
    found.take("Z 1", "2024-05-03T01:00:00", 7.5)
    rng = np.random.default_rng(1)
    many = [f"T {k},2024-05-03T02:00:00Z,{rng.random()},2" for k in range(3000)]
    whole = gzip.compress("\n".join([",".join(HEADER), *many]).encode())
    (folder / "07 torn.csv.gz").write_bytes(whole[: len(whole) // 2])
    found.bad_files["07 torn.csv.gz"] = "the file cannot be read"
    times = np.array(["2024-05-03T05:00:00.123456789", "2024-05-03T06:00:00"], "datetime64[ns]")
    table = pa.table({"Fühler": ["P 1", "P 2"], "Zeit": times, "Höhe": [8.5, float("nan")], "Druck": [1, 2]})
    pq.write_table(table, folder / "08 pandas.parquet")
    found.take("P 1", "2024-05-03T03:00:00.123456", 8.5)
    found.take("P 2", "2024-05-03T04:00:00", None)
    content = (folder / "08 pandas.parquet").read_bytes()
    (folder / "09 torn.parquet").write_bytes(content[: len(content) // 2])
    found.bad_files["09 torn.parquet"] = "the file cannot be read"


def _columns(folder: Path, found: Expected) -> None:
    """A subfolder, files that lack a column, and one that is empty."""
    (folder / "Werk 2" / "10.csv").write_text(",".join(HEADER) + "\nW 1,2024-05-03T05:00:00Z,9.5,1\n")
    found.take("W 1", "2024-05-03T05:00:00", 9.5)
    (folder / "11 ohne Zeit.csv").write_text("Fühler,Höhe,Druck\nX 1,1,1\n")
    found.bad_files["11 ohne Zeit.csv"] = "it has no column 'Zeit'"
    (folder / "12 leer.csv").write_text("")
    (folder / "12 nur Zeilen.csv").write_text("\n\n")
    found.bad_files["12 nur Zeilen.csv"] = "it has no line with columns"
    (folder / "13 100% ohne Druck.csv").write_text("Zeit;Fühler;Höhe\n2024-05-03T06:00:00Z;Y 1;10,5\n")
    found.take("Y 1", "2024-05-03T06:00:00", 10.5)


def _strays(folder: Path, found: Expected) -> None:
    """What is no file of the stream."""
    for name in (*found.not_read, ".versteckt.csv", "_alt/14.csv"):
        (folder / name).write_bytes(b"Zeit;Nichts\n1;2\n")


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
