"""A browser without a screen: asks an app as if over the network."""

from __future__ import annotations

from typing import Any

import anyio
import httpx


class Browser:
    """Keeps cookies, follows nothing."""

    def __init__(self, app: Any, host: str = "127.0.0.1") -> None:
        self.app, self.address = app, f"http://{host}"
        self.cookies = httpx.Cookies()

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            through = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=through, base_url=self.address, cookies=self.cookies) as client:
                answer = await client.request(method, path, **given)
                self.cookies.update(client.cookies)
                return answer

        return anyio.run(asked)

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.ask("GET", path, **given)
