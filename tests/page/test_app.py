"""Does the server give what an output holds, and nothing else?"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest

import fogline as fl
from fogline.output.folder import LocalFolder
from fogline.page.app import page_of
from fogline.page.security import HEADERS, LineLog
from fogline.page.state import State
from fogline.pipeline.report import COUNTERS
from fogline.queries import Queries
from fogline.rows.names import Kinds
from fogline.runs.config import Output, RunConfig
from tests.page.browsing import Browser
from tests.page.writing import HOSTILE, Writer, cell, enter, leave, near, small


def client(path: Path, **options: Any) -> Browser:
    """A browser of this machine, when the page has read what is there."""
    page = page_of(str(path), **options)
    page.store.poll()
    return Browser(page.app)


def of(browser: Browser, path: str) -> Any:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_answer_its_history_and_views_are_those_of_the_output(tmp_path):
    small(tmp_path)
    browser = client(tmp_path)
    answer = of(browser, "/api/answer")
    assert (answer["batch"], answer["size"]) == (2, 2)
    assert answer["members"] == [
        [0, [], "a", "1", 1.0, 0.0, [30.0, 20.0]],
        [0, [], HOSTILE, "1", 0.75, 0.0, [None, 19.0]],
    ]
    health, names = of(browser, "/api/health"), of(browser, "/api/about")["points"]
    points = [dict(zip(names, each, strict=True)) for each in health["points"]]
    assert [(each["time"], each["enter"], each["leave"], each["answer"]) for each in points] == [
        ("1", 2, 0, 2), ("2", 1, 0, 3), ("3", 0, 1, 2),
    ]  # fmt: skip
    assert health["totals"]["rows"] == 30
    assert health["totals"]["late"] == 2
    assert health["reasons"] == [["'t' is …, which is not a number", 1]]
    found = of(browser, "/api/near")["near"]
    assert [row[2] for row in found] == ["a", HOSTILE, "c"]
    assert found[1][8:] == [[None, 19.0], [20.0, 19.0], [34.0, 19.0], [27.0, 19.0]]
    assert [row[2:6] for row in of(browser, "/api/next")["next"]] == [
        [HOSTILE, "1", "heat", 1.5],
        ["c", "3", "air", 0.25],
    ]
    assert [row[4:7] for row in of(browser, "/api/changes?since=0")["changes"]] == [
        ["b", "2", "enter"],
        ["b", "2", "leave"],
    ]


def test_a_page_on_an_output_that_lacks_a_file_states_which(tmp_path):
    small(tmp_path)
    (tmp_path / "changes" / "batch-000000001.parquet").unlink()
    stated = "is not whole: of batch 1 the run has written a file in changes/, which is missing"
    assert stated in of(client(tmp_path), "/api/about")["trouble"]


def test_earlier_instants_are_as_they_were(tmp_path):
    small(tmp_path)
    browser = client(tmp_path)
    then = of(browser, "/api/answer?at=2")
    assert (then["batch"], [row[2] for row in then["members"]]) == (1, ["a", HOSTILE, "b"])
    assert [row[2] for row in of(browser, "/api/near?at=2")["near"]] == ["a"]
    assert of(browser, "/api/next?at=1")["next"] == []
    assert of(browser, "/api/answer?at=0")["members"] == []
    wrong = browser.get("/api/answer?at=noon")
    assert wrong.status_code == 409
    assert "is no instant of this stream" in wrong.json()["error"]


def test_a_group_that_lags_may_still_change_an_earlier_instant(tmp_path):
    query = fl.Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime=100, by=["site"])
    run = Writer(tmp_path, query, Kinds(pa.int64(), pa.string(), (pa.string(),)))
    page = page_of(str(tmp_path))
    browser, whole = Browser(page.app), {"heat": (5.0, 5.0, 5.0)}
    steps = [
        (9, "north", "n", ["n"], ["n"]),
        (4, "south", "s", ["n", "s"], ["n", "s"]),
        (6, "south", "s2", ["n", "s", "s2"], ["n", "s2"]),  # near the answer is what its group's newest table has
    ]
    for time, site, row, members, shown in steps:
        run.batch(
            time,
            [enter(row, time, 1.0, heat=5.0)],
            [near(row, time, 1.0, True, **whole)],
            [cell(row, time, "heat", 1.0, 4.0, 6.0)],
            group=(site,),
        )
        page.store.poll()
        assert [each[2] for each in of(browser, "/api/answer?at=9")["members"]] == members
        assert [each[2] for each in of(browser, "/api/near?at=9")["near"]] == shown
        assert [each[2] for each in of(browser, "/api/next?at=9")["next"]] == shown
        why = [of(browser, f'/api/explain?id={name}&group=["south"]&at=9')["why"] for name in ("s", "s2")]
        assert [each is not None for each in why] == [row == "s", row == "s2"]


def test_a_group_without_a_name_is_asked_for_like_any_other(tmp_path):
    query = fl.Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime=100, by=["site", "room"])
    run = Writer(tmp_path, query, Kinds(pa.int64(), pa.string(), (pa.string(), pa.string())))
    whole = {"heat": (5.0, 5.0, 5.0)}
    for k, group in enumerate([(None, "1"), ("n", "1"), (None, None)]):
        run.batch(1, [enter(f"s{k}", 1, 1.0, heat=5.0)], [near(f"s{k}", 1, 1.0, True, **whole)], group=group)
    browser = client(tmp_path)
    for k, asked in enumerate(['[null, "1"]', '["n", "1"]', "[null, null]"]):
        assert [row[2] for row in of(browser, f"/api/near?group={asked}")["near"]] == [f"s{k}"]
        assert of(browser, f"/api/explain?id=s{k}&group={asked}")["why"] is not None
    for wrong in ("n", "{}", "[1]"):
        answer = browser.get(f"/api/near?group={wrong}")
        assert (answer.status_code, "it is a list as JSON" in answer.json()["error"]) == (400, True)


def test_a_row_is_explained_by_what_the_run_wrote_beside_it(tmp_path):
    small(tmp_path)
    browser = client(tmp_path)
    asked = {"id": HOSTILE, "arrived": "1"}
    assert browser.get("/api/explain", params=asked).json()["why"]["sentence"].startswith(HOSTILE)
    assert of(browser, "/api/explain?id=c")["why"]["probability"] == 0.2
    assert of(browser, "/api/explain?id=b")["why"]["probability"] == 0.6  # beside its change
    assert of(browser, "/api/explain?id=nothing") == {"why": None, "explain": True}
    assert browser.get("/api/explain?id=a&query=7").status_code == 404
    assert browser.get("/api/explain?id=a&query=x").status_code == 400
    assert browser.get("/api/explain").status_code == 400


def test_a_run_without_explanations_states_so(tmp_path):
    run = Writer(tmp_path, explain=False)
    run.batch(1, [enter("a", 1, 1.0, heat=1.0, air=1.0)])
    browser = client(tmp_path)
    assert of(browser, "/api/about")["explain"] is False
    assert of(browser, "/api/explain?id=a") == {"why": None, "explain": False}
    assert of(browser, "/api/near") == {"near": []}
    assert "without --explain" in browser.get("/api/near?at=1").json()["error"]


def test_groups_timestamps_and_numbers_as_ids_travel_as_texts(tmp_path):
    query = fl.Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime="1 hour", by=["site", "level"])
    kinds = Kinds(pa.timestamp("us", "UTC"), pa.int64(), (pa.string(), pa.int64()))
    run, when = Writer(tmp_path, query, kinds), pa.scalar(1_714_564_800_000_000, pa.timestamp("us", "UTC")).as_py()
    large = 2**53 + 1
    rows = [near(large, when, 1.0, True, heat=(5.0, 5.0, 5.0))]
    run.batch(when, [enter(large, when, 1.0, heat=5.0)], rows, [], group=("north", 3))
    run.batch(
        when, [enter(7, when, 0.9, heat=4.0)], [near(7, when, 0.9, True, heat=(4.0, 4.0, 4.0))], [], group=("south", 1)
    )
    run.batch(when, [leave(7, when, heat=4.0)], [{"id": None}], [{"id": None}], group=("south", 1))
    browser = client(tmp_path)
    (row,) = of(browser, "/api/answer")["members"]
    assert row[1:4] == [["north", "3"], str(large), "2024-05-01 12:00:00"]
    assert [each[2] for each in of(browser, "/api/near")["near"]] == [
        str(large)
    ]  # the south has nothing to show any more
    assert len(of(browser, '/api/near?group=["north","3"]')["near"]) == 1
    assert of(browser, '/api/near?group=["north","4"]')["near"] == of(browser, '/api/next?group=["x"]')["next"] == []
    found = browser.get("/api/explain", params={"id": str(large), "group": '["north", "3"]', "arrived": row[3]}).json()
    assert found["why"]["probability"] == 1.0
    assert browser.get("/api/explain", params={"id": str(large), "group": '["south", "1"]'}).json()["why"] is None
    assert len(browser.get("/api/answer", params={"at": row[3]}).json()["members"]) == 1


def test_of_several_queries_each_has_its_own_answer_and_rows_are_counted_once(tmp_path):
    fire, wet = (fl.Query(attributes={name: "max"}, id="sensor", time="t", lifetime=9) for name in ("heat", "damp"))
    output = Output(LocalFolder(tmp_path), RunConfig("in", str(tmp_path), Queries({"fire": fire, "wet": wet})))
    output.begin({})
    same = {"time": 1, "t": 1, "change": "enter", "probability_error": 0.0, "reason": None, "beaten_by": None}
    changes = [
        {"query": "fire", "sensor": "a", "probability": 1.0, "heat": 5.0, "damp": None, **same},
        {"query": "wet", "sensor": "a", "probability": 0.75, "heat": None, "damp": 3.0, **same},
        {"query": "wet", "sensor": "b", "probability": 0.5, "heat": None, "damp": 2.0, **same},
    ]
    counted = dict.fromkeys(COUNTERS, 0) | {"rows": 7, "live": 4}
    health = [
        {"batch": 0, "seconds": 0.1, "query": name, "time": 1, **counted, "answer": n, "scores": None}
        for name, n in (("fire", 1), ("wet", 2))
    ]
    output.folder.write(0, {"changes": pa.Table.from_pylist(changes), "health": pa.Table.from_pylist(health)})
    browser = client(tmp_path)
    assert [each["name"] for each in of(browser, "/api/about")["queries"]] == ["fire", "wet"]
    members = [row[0:1] + row[2:] for row in of(browser, "/api/answer")["members"]]
    assert members == [[0, "a", "1", 1.0, 0.0, [5.0]], [1, "a", "1", 0.75, 0.0, [3.0]], [1, "b", "1", 0.5, 0.0, [2.0]]]
    assert of(browser, "/api/health")["totals"]["rows"] == 7
    assert len(of(browser, "/api/answer?at=1")["members"]) == 3


def test_rows_of_the_answer_have_what_the_query_keeps_as_texts(tmp_path):
    query = fl.Query(
        attributes={"heat": "max", "air": "min"}, id="sensor", time="t", lifetime=9, keep=["room", "floor"]
    )
    run = Writer(tmp_path, query, Kinds(pa.int64(), pa.string(), kept=(("room", pa.string()), ("floor", pa.int64()))))
    run.batch(
        1,
        [
            enter("a", 1, 1.0, heat=30.0) | {"room": HOSTILE, "floor": 3},
            enter("b", 1, 0.75, heat=3.0) | {"floor": None},
        ],
    )
    browser = client(tmp_path)
    assert of(browser, "/api/about")["queries"][0]["kept"] == ["room", "floor"]
    assert [row[7] for row in of(browser, "/api/answer")["members"]] == [[HOSTILE, "3"], [None, None]]
    assert [row[7] for row in of(browser, "/api/answer?at=1")["members"]] == [[HOSTILE, "3"], [None, None]]


def test_only_the_newest_row_of_an_id_is_there_where_newer_rows_replace_others(tmp_path):
    query = fl.Query(attributes={"heat": "max", "air": "min"}, id="sensor", time="t", latest=True)
    run = Writer(tmp_path, query)
    run.batch(1, [enter("a", 1, 1.0, heat=30.0, air=20.0)])
    page = page_of(str(tmp_path))
    page.store.poll()
    run.batch(2, [enter("a", 2, 0.7, "update", heat=None, air=19.0)])
    (event,) = page.store.poll()
    assert json.loads(event.data)["enter"] == [[0, [], "a", "2", 0.7, 0.0, [None, 19.0]]]
    assert [row[2:4] for row in of(Browser(page.app), "/api/answer")["members"]] == [["a", "2"]]
    assert of(Browser(page.app), "/api/about")["queries"][0]["latest"] is True


def test_a_page_waits_for_a_run_and_hears_of_each_batch(tmp_path):
    page = page_of(str(tmp_path / "out"))
    (event,) = page.store.poll()
    assert event.name == "reset"
    browser = Browser(page.app)
    assert of(browser, "/api/about")["trouble"] == "no run yet"
    assert of(browser, "/api/answer")["members"] == []
    assert browser.get("/api/near").status_code == 409
    run = small(tmp_path / "out")
    assert [each.name for each in page.store.poll()] == ["reset"]
    run.batch(4, [enter("d", 4, 0.9, heat=1.0, air=1.0), leave("a", 1, "beaten", heat=1.0, air=1.0)])
    (event,) = page.store.poll()
    found = json.loads(event.data)
    assert (event.name, found["after"], found["batch"], found["size"]) == ("batch", 2, 3, 2)
    assert [row[2] for row in found["enter"]] == ["d"]
    assert found["leave"] == [[0, [], "a", "1"]]
    assert found["changes"][-1][4:9] == ["a", "1", "leave", None, "beaten"]
    assert page.store.poll() == []


def test_viewers_hear_of_events_as_they_come(tmp_path):
    run = small(tmp_path)
    page = page_of(str(tmp_path))
    heard: list[bytes] = []

    async def listening() -> None:
        page.hub.start()
        async for line in page.hub.events():
            heard.append(line)
            if b"event: reset" in line:
                run.batch(4, [enter("d", 4, 0.9, heat=1.0, air=1.0)])
            if b"event: batch" in line:
                page.hub.stop()

    anyio.run(listening)
    assert [line.splitlines()[0] for line in heard[1:]] == [b"event: reset", b"event: batch"]
    assert page.hub.queues == set()


def test_files_that_are_joined_meanwhile_change_nothing(tmp_path):
    run = small(tmp_path)
    run.output.folder.compaction.block = 4
    page = page_of(str(tmp_path))
    page.store.poll()
    for k in range(4, 13):
        run.batch(k, [enter(f"s{k}", k, 0.9, heat=1.0, air=1.0)])
        if k in (6, 12):
            page.store.poll()
    browser = Browser(page.app)
    assert len(list((tmp_path / "changes").iterdir())) < 12  # they were joined
    assert sorted(row[2] for row in of(browser, "/api/answer")["members"]) == sorted(
        ["a", HOSTILE, *(f"s{k}" for k in range(4, 13))]
    )
    fresh = client(tmp_path)
    assert of(fresh, "/api/answer")["members"] == of(browser, "/api/answer")["members"]
    both = [of(each, "/api/health")["totals"] for each in (browser, fresh)]
    assert both[0] == both[1]


def test_another_run_in_the_same_folder_begins_anew(tmp_path):
    small(tmp_path / "out")
    page = page_of(str(tmp_path / "out"))
    page.store.poll()
    shutil.rmtree(tmp_path / "out")
    assert [each.name for each in page.store.poll()] == ["reset"]
    Writer(tmp_path / "out").batch(1, [enter("z", 1, 1.0, heat=1.0, air=1.0)])
    page.store.poll()
    assert [row[2] for row in of(Browser(page.app), "/api/answer")["members"]] == ["z"]


def test_an_earlier_instant_is_that_of_the_run_that_is_there(tmp_path):
    page = page_of(str(tmp_path / "out"))
    browser = Browser(page.app)
    for k in range(12):  # what is known of a run may come to lie where that of another lay
        Writer(tmp_path / "out").batch(1, [enter(f"s{k}", 1, 1.0, heat=1.0, air=1.0)])
        page.store.poll()
        assert [row[2] for row in of(browser, "/api/answer?at=1")["members"]] == [f"s{k}"]
        shutil.rmtree(tmp_path / "out")
        page.store.poll()


def test_a_damaged_output_is_stated_in_words(tmp_path):
    (tmp_path / "about.json").write_text("{")
    assert "about.json of the output is damaged" in of(client(tmp_path), "/api/about")["trouble"]
    small(tmp_path / "out")
    next((tmp_path / "out" / "health").iterdir()).write_bytes(b"no parquet")
    assert "cannot be read" in of(client(tmp_path / "out"), "/api/about")["trouble"]


def test_metrics_are_prometheus_text(tmp_path):
    page = page_of(str(tmp_path))
    page.store.poll()
    small(tmp_path)
    page.store.poll()
    answer = Browser(page.app).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    for line in (
        "fogline_rows_total 30",
        'fogline_changes_total{change="leave"} 1',
        "fogline_answer_rows 2",
        "fogline_up 1",
    ):
        assert line in lines
    values = [line.split()[0].split("{")[0] for line in lines if not line.startswith("#")]
    kinds = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert set(values) == kinds
    assert "fogline_up 0" in client(tmp_path / "none").get("/metrics").text


def test_counters_never_fall_and_count_each_batch_that_came_since_the_page_was_started(tmp_path):
    def batches(count: int) -> None:
        for _ in range(count):
            run.batch(run.number, [enter(f"s{run.number}", run.number, 1.0, heat=1.0, air=1.0)])

    def metrics(page: Any) -> tuple[int, int]:
        page.store.poll()
        found = dict(
            line.rsplit(" ", 1) for line in Browser(page.app).get("/metrics").text.splitlines() if line[0] != "#"
        )
        return int(found["fogline_rows_total"]), int(found['fogline_changes_total{change="enter"}'])

    run = Writer(tmp_path)
    run.output.folder.compaction.keep = 20
    batches(150)
    page = page_of(str(tmp_path))
    assert metrics(page) == (0, 0)  # what came before it is not of this page
    batches(130)  # files were joined, and others deleted
    assert metrics(page) == (1300, 130)
    batches(1)
    assert metrics(page) == (1310, 131)
    (tmp_path / "about.json").rename(tmp_path / "away")  # nothing can be read for a moment
    page.store.poll()
    (tmp_path / "away").rename(tmp_path / "about.json")
    batches(1)
    assert metrics(page) == (1320, 132)
    assert metrics(page_of(str(tmp_path))) == (0, 0)


def test_of_several_queries_what_rows_met_is_counted_once_and_groups_stay_counted_as_they_were(tmp_path):
    kinds = [("batch", pa.int64()), ("query", pa.string()), ("seconds", pa.float64()), ("site", pa.string())]
    kinds += [("time", pa.int64()), *((name, pa.int64()) for name in COUNTERS), ("scores", pa.string())]
    query = fl.Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime=100, by=["site"])
    state = State({}, Queries({"a": query, "b": query}))

    def point(batch: int, *rows: tuple[str, str, int, int]) -> Any:
        plain = [
            {"batch": batch, "query": name, "seconds": 0.1, "site": site, "time": batch, **dict.fromkeys(COUNTERS, 0),
             "rows": 3, "live": 2, "answer": 1, "waiting": waiting, "held": held, "scores": None}
            for name, site, waiting, held in rows
        ]  # fmt: skip
        (found,) = state.add_health(pa.Table.from_pylist(plain, pa.schema(kinds)))
        return found

    first = point(0, ("a", "n", 2, 1), ("b", "n", 2, 1), ("a", "s", 3, 0), ("b", "s", 1, 0))
    assert (first.rows, first.waiting, first.held, first.live, first.answer) == (6, 5, 1, 8, 4)
    then = point(1, ("a", "n", 0, 0), ("b", "n", 0, 0))  # the south was not reached: its rows still wait
    assert (then.rows, then.waiting, then.held) == (3, 3, 1)


def test_browsers_may_load_nothing_from_elsewhere_and_only_read(tmp_path):
    browser = client(tmp_path)
    for path in ("/", "/static/page.js", "/api/about", "/healthz", "/nothing"):
        answer = browser.get(path)
        assert all(answer.headers[name] == value for name, value in HEADERS.items()), path
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert "access-control-allow-origin" not in answer.headers
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert browser.ask(method, "/api/answer").status_code == 405


@pytest.mark.parametrize(
    "path", ["../app.py", "..%2fapp.py", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "x.js", "page.css%00"]
)
def test_no_address_leads_to_another_file(tmp_path, path):
    assert client(tmp_path).get(f"/static/{path}").status_code == 404


def test_names_that_do_not_stand_for_this_machine_are_refused(tmp_path):
    browser = client(tmp_path)
    for host, status in {
        "evil.example": 421,
        "127.0.0.1.evil.example:80": 421,
        "": 421,
        "localhost:9": 200,
        "[::1]:9": 200,
    }.items():
        assert browser.get("/api/about", headers={"host": host}).status_code == status, host


def test_a_token_opens_the_page_once_and_a_cookie_from_then_on(tmp_path):
    token, lines = "a-token-of-16-characters", io.StringIO()
    small(tmp_path)
    browser = client(tmp_path, token=token, log=LineLog(lines))
    assert browser.get("/api/answer").status_code == 401
    assert browser.get("/?token=wrong").status_code == 401
    assert browser.get("/healthz", headers={"host": "mine.example"}).text == "ok\n"  # who watches it needs no token
    assert browser.get("/api/answer", headers={"authorization": "Bearer nothing"}).status_code == 401
    assert (
        browser.get("/api/answer", headers={"authorization": f"Bearer {token}", "host": "mine.example"}).status_code
        == 200
    )
    welcome = browser.get(f"/?token={token}&x=1")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/?x=1")
    assert {"httponly", "samesite=strict"} <= {
        each.strip().lower() for each in welcome.headers["set-cookie"].split(";")
    }
    assert token not in welcome.headers["set-cookie"]
    assert browser.get("/api/answer").status_code == 200
    assert token not in lines.getvalue()
    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [each["status"] for each in logged if each["event"] == "request"] == [401, 401, 200, 401, 200, 303, 200]
