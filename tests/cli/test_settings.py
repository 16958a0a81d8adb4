"""Do --packages, --jars and --conf reach Spark, and is what is malformed named before it starts?"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module

import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.cli.options import settings_of
from fogline.errors import FoglineError

QUERY = "attributes: {heat: max, gas: max}\nid: sensor\ntime: ts\nlifetime: 100\n"
ROWS = [{"sensor": f"s{k}", "ts": k, "heat": float(k), "gas": k / 2} for k in range(20)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A query, a stream, a repository, a jar; and no Spark but one that only notes what it is started with."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(QUERY)
    (tmp_path / "rows.csv").write_text("sensor,ts,heat,gas\n" + "".join(f"s{k},{k},{k},{k}\n" for k in range(9)))
    (tmp_path / "a.jar").write_bytes(b"")
    fl.Repository.fit(ROWS, fl.Query.load("q.yaml"), method="mean").save("r")
    return tmp_path


@pytest.fixture
def started(monkeypatch):
    """The settings of each session that a command would have started."""
    noted: list[dict[str, str]] = []

    @contextmanager
    def note(*, settings, **_):
        noted.append(dict(settings))
        raise FoglineError("no Spark here")
        yield

    monkeypatch.setattr(import_module("fogline.spark.session"), "for_a_while", note)
    return noted


COMMANDS = {
    "run": ["run", "rows.csv", "-q", "q.yaml", "-o", "out"],
    "fit": ["fit", "rows.csv", "-q", "q.yaml", "-o", "new"],
    "refit": ["refit", "r", "rows.csv", "-q", "q.yaml", "-o", "new"],
    "impute": ["impute", "rows.csv", "-r", "r", "-q", "q.yaml", "-o", "filled.csv"],
    "check": ["check", "rows.csv", "-q", "q.yaml"],
    "answer": ["answer", "hdfs://nowhere.invalid/out"],
    "rules": ["rules", "r", "--live", "hdfs://nowhere.invalid/out"],
}


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert done.exit_code == 2, done.output
    return done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_may_start_spark_passes_them_on(place, started, command):
    given = ["--packages", "a:b:1,c.d:e_2.13:3", "--packages", "f:g:4", "--jars", "a.jar,hdfs://h/b.jar"]
    printed = run(*COMMANDS[command], *given, "--conf", "spark.executor.memory=2g", "--conf", "spark.x=a=b")
    assert "FoglineError: no Spark here" in printed
    (settings,) = started
    assert settings["spark.jars.packages"] == "a:b:1,c.d:e_2.13:3,f:g:4"
    assert settings["spark.jars"] == f"{place / 'a.jar'},hdfs://h/b.jar"
    assert (settings["spark.executor.memory"], settings["spark.x"]) == ("2g", "a=b")


def test_one_setting_is_reason_enough_for_spark(place, started):
    assert "on Spark: --packages, --jars or --conf is given" in run(*COMMANDS["check"], "--conf", "spark.x=1")
    assert "on Spark: --master and --memory are given" in run(
        *COMMANDS["check"], "--master", "local[1]", "--memory", "1g"
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--conf", "spark.executor.memory"], "write a setting and its value, as in spark.executor.memory=4g."),
        (["--conf", "=4g"], "write a setting and its value"),
        (["--conf", "fs.s3a.endpoint=x"], "is passed as spark.hadoop.fs.s3a.endpoint."),
        (["--packages", "org.apache.spark:spark-sql-kafka"], "write group:name:version"),
        (["--packages", "a:b:1,nonsense"], "--packages 'nonsense'"),
        (["--jars", "no.jar"], "--jars 'no.jar': there is no such file."),
    ],
)
def test_what_is_malformed_is_named_before_spark_starts(place, started, given, sentence):
    for command in ("run", "fit", "answer"):
        printed = run(*COMMANDS[command], *given)
        assert sentence in printed
        assert printed.count("FoglineError") == 1
    assert started == []
    assert not (place / "out").exists()


def test_the_engine_of_this_process_states_that_they_mean_nothing_to_it(place, started):
    done = CliRunner().invoke(app, [*COMMANDS["run"], "--engine", "embedded", "--conf", "spark.x=1"])
    assert done.exit_code == 0, done.output
    assert "--packages, --jars or --conf is for Spark, and without effect here: the engine is embedded" in done.output


def test_the_value_of_a_setting_that_is_refused_is_not_shown():
    with pytest.raises(FoglineError) as error:
        settings_of(conf=["fs.s3a.secret.key=hush"])
    assert "spark.hadoop.fs.s3a.secret.key" in str(error.value)
    assert "hush" not in str(error.value)
