"""Does each row that enters raise an alert, at least once, that a receiver can recognise?"""

from __future__ import annotations

import json
import sys
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from fogline.errors import FoglineError, QueryError, SinkError
from fogline.sinks import Command, Webhook
from tests.sinks.monitored import Batch, batches, begin, put


class Receiver(HTTPServer):
    """Keeps what it gets; answers with the statuses it is given, then with 204."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.statuses: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/alerts?room=1"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        alert = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        if status < 300:
            assert self.path == "/alerts?room=1"
            self.server.got.append(alert)
            self.server.keys.append(self.headers["X-Key"])
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def wanted(made: list[Batch], *which: str) -> list[tuple[int, int, Any]]:
    return [
        (number, position, row["i"])
        for number, batch in enumerate(made)
        for position, row in enumerate(batch.changes.to_pylist())
        if row["change"] in which
    ]


def got(alerts: list[dict[str, Any]]) -> list[tuple[int, int, Any]]:
    return [(each["batch"], each["position"], each["row"]["i"]) for each in alerts]


def test_a_webhook_gets_every_row_that_enters_in_order_also_after_failures(receiver):
    made = batches()
    sink = Webhook(receiver.url, headers={"X-Key": "hush"}, pause=0.0)
    begin(sink, made)
    receiver.statuses = [500, 204, 503, 429, 404]
    for number, batch in enumerate(made):
        put(sink, number, batch)
    assert got(receiver.got) == wanted(made, "enter")
    first = next(row for row in made[0].changes.to_pylist() if row["change"] == "enter")
    expected = {name: value for name, value in first.items() if value is not None and name != "change"}
    assert receiver.got[0]["row"] == expected
    assert receiver.got[0]["change"] == "enter"
    assert set(receiver.keys) == {"hush"}
    assert "hush" not in sink.name


def test_a_user_and_a_password_in_the_address_are_sent_and_not_shown():
    sink = Webhook("https://me:hu%40sh@host/x")
    assert sink.headers["Authorization"] == f"Basic {b64encode(b'me:hu@sh').decode()}"
    assert sink.name == "webhook+https://host/…"


def test_no_failure_shows_the_path_or_a_header(receiver):
    host = receiver.url.removesuffix("/alerts?room=1")
    for path in ("services/XXXX", "services/XX XX", "services/XXXX\u00e9"):
        receiver.statuses, sink = [404], Webhook(f"{host}/{path}", tries=1)
        with pytest.raises(FoglineError, match="it answered 404 Not Found") as error:
            put(sink, 0, batches()[0])
        assert "XX" not in str(error.value)
    for value in ("hush\nhush", "hush\u0142"):
        with pytest.raises(QueryError, match=r"header 'X-Key' .* is not shown") as refused:
            Webhook(host, headers={"X-Key": value})
        assert "hush" not in str(refused.value)


def test_what_comes_again_after_a_crash_can_be_recognised(receiver):
    made = batches()
    sink = Webhook.from_url(f"webhook+{receiver.url}")
    for _ in range(2):
        put(sink, 3, made[3])
    half = len(receiver.got) // 2
    assert receiver.got[:half] == receiver.got[half:]
    assert got(receiver.got[:half]) == [each for each in wanted(made, "enter") if each[0] == 3]


@pytest.mark.parametrize("on_failure", ["stop", "skip"])
def test_an_alert_that_keeps_failing_stops_the_run_or_is_skipped(receiver, on_failure):
    made, remarks = batches(), list[str]()
    sink = Webhook(receiver.url, tries=3, pause=0.0, on_failure=on_failure)
    begin(sink, made, remark=remarks.append)
    receiver.statuses = [500, 500, 500]
    expected = [each for each in wanted(made, "enter") if each[0] == 0]
    text = f"the alert of batch 0, position {expected[0][1]} failed 3 times, the last time with: it answered 500"
    if on_failure == "stop":
        with pytest.raises(FoglineError, match=text):
            put(sink, 0, made[0])
        assert receiver.got == []
    else:
        put(sink, 0, made[0])
        assert got(receiver.got) == expected[1:]
        assert sink.skipped == 1
        assert text in remarks[0]


def test_a_command_reads_each_change_that_is_asked_for(tmp_path):
    made, log = batches(), tmp_path / "log"
    script = f"import sys; open({str(log)!r}, 'a').write(sys.stdin.read())"
    sink = Command([sys.executable, "-S", "-c", script], changes=["leave"])
    put(sink, 2, made[2])
    assert got([json.loads(line) for line in log.read_text().splitlines()]) == [
        each for each in wanted(made, "leave") if each[0] == 2
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([sys.executable, "-S", "-c", "import sys; sys.exit('no such room')"], "with the status 1: no such room"),
        (["/nowhere/at-all"], "No such file"),
        ([sys.executable, "-S", "-c", "import time; time.sleep(9)"], "timed out"),
    ],
)
def test_a_command_that_fails_stops_the_run_with_its_words(words, text):
    sink = Command(words, tries=1, timeout=2.0 if "sleep" not in words[-1] else 0.2)
    with pytest.raises(FoglineError, match=text):
        put(sink, 0, batches()[0])


def test_of_a_command_that_writes_much_only_the_last_words_are_kept():
    script = "import sys\nfor _ in range(512): sys.stderr.write('x' * 65536); sys.stdout.write('y' * 65536)\n"
    sink = Command([sys.executable, "-S", "-c", f"{script}sys.exit('no room left')"], tries=1)
    tracemalloc.start()
    try:
        with pytest.raises(FoglineError, match=r"with the status 1: x+ ?no room left") as error:
            put(sink, 0, batches()[0])
        assert tracemalloc.get_traced_memory()[1] < 8_000_000  # of 64 MB
    finally:
        tracemalloc.stop()
    assert len(str(error.value)) < 600


def test_an_alert_of_any_length_reaches_a_command_that_does_not_read_it():
    sink = Command([sys.executable, "-S", "-c", "pass"], tries=1)
    sink.send(b"x" * 1_000_000)
    slow = Command([sys.executable, "-S", "-c", "import time; time.sleep(60)", "hush"], tries=1, timeout=0.2)
    with pytest.raises(SinkError, match=r"^it timed out: it did not end within 0\.2 s$"):
        slow.send(b"x" * 1_000_000)


def test_what_cannot_be_meant_is_refused_at_once():
    with pytest.raises(QueryError, match="a list of words"):
        Command("logger -t fogline")
    with pytest.raises(QueryError, match="is no web address"):
        Webhook("ftp://host/x")
    with pytest.raises(QueryError, match=r"changes is \['entr'\]"):
        Webhook("http://host/x", changes=["entr"])
