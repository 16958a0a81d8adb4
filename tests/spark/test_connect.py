"""What is refused before a Connect server is asked? (What is not, is tried in tests/integration.)"""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from fogline.errors import FoglineError
from fogline.spark import WORKS_WITH
from fogline.spark.connect import remote
from fogline.spark.session import session


def test_beside_a_session_with_a_jvm_there_is_none_of_a_server(spark):
    with pytest.raises(
        FoglineError, match=r"this process has a Spark session of its own, so it cannot connect to 'sc://x'"
    ):
        session("sc://x")


@pytest.mark.parametrize("address", ["sc://", "sc://:7", "sc://host:port"])
def test_an_address_without_a_server_is_refused(monkeypatch, address):
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(FoglineError, match="names no Spark Connect server; write sc://host:port"):
        remote(address, "x", {})


def test_a_server_that_is_not_there_is_named_at_once(monkeypatch):
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with pytest.raises(
        FoglineError, match=rf"no Spark Connect server answers at 127.0.0.1:{port} \(Connection refused"
    ):
        remote(f"sc://127.0.0.1:{port}", "x", {})


@pytest.mark.parametrize("version", ["4.1.4", "3.5.6", "4.4.0", "5.0.0.dev1"])
def test_another_version_of_pyspark_is_refused_in_one_sentence(version):
    code = f"import pyspark; pyspark.__version__ = {version!r}; import fogline.spark"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: Fogline works with PySpark {' and '.join(WORKS_WITH)}, not with {version},")
