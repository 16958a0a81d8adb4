"""What does the page cost: an update, the memory of its server, many viewers?

python -m benchmarks.page                      50,000 changes, 5,000 members, 100 viewers
python -m benchmarks.page --browser            also in Debian's Chromium, by performance.now

An output with as many members and as many changes is written, the page is served in a process of its own, viewers
listen, and batches are added: a twentieth of the changes at a time, and at last all of them in one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from fogline.output.answers import OutputReader
from fogline.page.follower import Follower
from fogline.page.serving import beside
from tests.page.writing import Writer, cell, near

BATCHES = 20


def some_changes(random: np.random.Generator, members: int, count: int) -> list[dict[str, Any]]:
    """Updates of members, as many as are asked for."""
    which = random.integers(0, members, count)
    chance, heat, air = random.uniform(0.5, 1, count), random.uniform(0, 100, count), random.uniform(15, 21, count)
    return [
        {"id": f"sensor-{k:05}", "t": 1, "change": "update", "probability": p, "probability_error": 0.0,
         "heat": h, "air": a}
        for k, p, h, a in zip(which.tolist(), chance.tolist(), heat.tolist(), air.tolist(), strict=True)
    ]  # fmt: skip


def views(random: np.random.Generator) -> dict[str, Any]:
    """Rows near the answer, and cells to be measured, as many as a run writes."""
    rows = [
        near(f"sensor-{k:05}", 1, random.uniform(), k < 500, heat=(None, 10.0, 20.0), air=(18.0, 18.0, 18.0))
        for k in range(550)
    ]
    return {"near": rows, "cells": [cell(f"sensor-{k:05}", 1, "heat", 1 / (k + 1), 10, 20) for k in range(20)]}


class Viewers:
    """Connections that listen, in one thread, and when each batch reached each of them."""

    def __init__(self, address: str, count: int) -> None:
        self.heard: dict[int, list[float]] = {}
        self.host, self.port = address.removeprefix("http://").rstrip("/").split(":")
        self.there = threading.Semaphore(0)
        threading.Thread(target=asyncio.run, args=(self._all(count),), daemon=True).start()
        for _ in range(count):
            self.there.acquire()

    async def _all(self, count: int) -> None:
        await asyncio.gather(*(self._listen() for _ in range(count)))

    async def _listen(self) -> None:
        reader, writer = await asyncio.open_connection(self.host, int(self.port), limit=2**24)
        writer.write(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"event: hello")
        self.there.release()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                found = await reader.readuntil(b"\n\n")
                if named := re.search(rb'"batch":(\d+)', found[:300]):
                    self.heard.setdefault(int(named[1]), []).append(time.perf_counter())

    def wait(self, batch: int, count: int) -> float:
        """When the last of them heard of a batch."""
        until = time.perf_counter() + 60
        while time.perf_counter() < until:
            if len(self.heard.get(batch, [])) >= count:
                return max(self.heard[batch])
            time.sleep(0.005)
        raise TimeoutError(f"batch {batch} was not heard of")


def own_cost(path: Path, write: Callable[[], None]) -> float:
    """Seconds of the processor that an update takes, whatever else the machine does."""
    follower = Follower(OutputReader(path))
    follower.poll()
    write()
    began = time.process_time()
    assert [event.name for event in follower.poll()] == ["batch"]
    return time.process_time() - began


def updates(address: str) -> float:
    """Seconds that the last update took the server."""
    lines = httpx.get(f"{address}metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("fogline_page_update_seconds ")))


def memory_of_child() -> float:
    """MB that the server has had at most."""
    children = [Path("/proc") / each for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    found = [
        each.joinpath("status").read_text()
        for each in children
        if b"fogline.page" in each.joinpath("cmdline").read_bytes()
    ]
    peaks = [int(line.split()[1]) for text in found for line in text.splitlines() if line.startswith("VmHWM")]
    return max(peaks) / 1024


def in_ms(seconds: list[float]) -> str:
    """The middle one and the longest."""
    return f"median {statistics.median(seconds) * 1e3:.0f} ms, most {max(seconds) * 1e3:.0f} ms"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="What the page costs.")
    parser.add_argument("--changes", type=int, default=50_000)
    parser.add_argument("--members", type=int, default=5_000)
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--browser", action="store_true")
    asked = parser.parse_args()
    random = np.random.default_rng(1)
    with TemporaryDirectory() as folder:
        run = Writer(Path(folder) / "out")
        first = [
            each | {"change": "enter", "id": f"sensor-{k:05}"}
            for k, each in enumerate(some_changes(random, asked.members, asked.members))
        ]
        run.batch(1, first, **views(random))
        with beside(str(run.path), port=0) as address:
            time.sleep(2)
            viewers = Viewers(address, asked.viewers)
            browser = Browsing(address) if asked.browser else None
            server, reached = [], []
            for k in range(BATCHES):
                size = asked.changes // BATCHES
                run.batch(2 + k, some_changes(random, asked.members, size), **views(random))
                written = time.perf_counter()
                reached.append(viewers.wait(1 + k, asked.viewers) - written)
                server.append(updates(address))
                time.sleep(0.2)
            run.batch(99, some_changes(random, asked.members, asked.changes), **views(random))
            viewers.wait(1 + BATCHES, asked.viewers)
            once = updates(address)
            began = time.perf_counter()
            size = len(httpx.get(f"{address}api/answer").content)
            whole = time.perf_counter() - began
            print(f"load {os.getloadavg()[0]:.1f}; {asked.members:,} members, {asked.viewers} viewers")
            print(f"server, an update with {asked.changes // BATCHES:,} changes: {in_ms(server)}")
            print(f"server, an update with {asked.changes:,} changes in one batch: {once * 1e3:.0f} ms")
            print(f"until the last viewer has it, with 0 to 250 ms between looks at the output: {in_ms(reached)}")
            print(f"a whole answer: {size / 1e6:.2f} MB in {whole * 1e3:.0f} ms")
            print(f"memory of the server at most: {memory_of_child():.0f} MB")
            if browser is not None:
                print(browser.report())
        pa.set_cpu_count(1)
        for changes in (asked.changes // BATCHES, asked.changes):
            write = partial(run.batch, 100, some_changes(random, asked.members, changes), **views(random))
            print(
                f"of the processor alone, an update with {changes:,} changes: {own_cost(run.path, write) * 1e3:.0f} ms"
            )


class Browsing:
    """The same in a real browser."""

    def __init__(self, address: str) -> None:
        from playwright.sync_api import sync_playwright

        self.playwright = sync_playwright().start()
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        self.browser = self.playwright.chromium.launch(executable_path=found, args=arguments)
        self.page = self.browser.new_page(viewport={"width": 1440, "height": 1000})
        self.page.goto(address)
        self.page.locator("#rows tr[data-index]").first.wait_for()

    def report(self) -> str:
        """How long updates took the browser."""
        self.page.wait_for_timeout(1500)
        took = self.page.evaluate("performance.getEntriesByName('fogline-update').map(each => each.duration)")
        self.browser.close()
        self.playwright.stop()
        return f"browser, {len(took)} updates: median {statistics.median(took):.0f} ms, most {max(took):.0f} ms"


if __name__ == "__main__":
    main()
