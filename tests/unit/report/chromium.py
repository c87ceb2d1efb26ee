"""A headless Chromium, spoken to over its DevTools pipe: enough to lay a page out and to hear what it does."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from typing import Any

from infra.toolchain.chromium import OVERRIDE, find_chromium

__all__ = ["OVERRIDE", "Browser", "Tab", "browser", "program"]

# The renderer of a cold start on a busy machine; a page then takes some 0.2 s.
PATIENCE_S = 60.0
LOADED = {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"}


def program() -> str | None:
    """Return the Chromium of this machine, or the one unpacked into the cache; None when there is none."""
    return find_chromium()


@dataclass
class Tab:
    """One page. `messages` is what it said on its console or threw, `requests` every address it asked for."""

    browser: Browser
    session: str
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        return self.browser.ask(method, self.session, **parameters)

    def open(self, page: Path, width: int, *, dark: bool = False, medium: str = "screen") -> None:
        """Load a page at a width, in a colour scheme, and wait until it is laid out."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", media=medium, features=[scheme])
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Page.navigate", url=page.resolve().as_uri())
        self.browser.wait_for(lambda: self.evaluate("document.readyState") == "complete")
        self.browser.drain(self)

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of an expression on the page."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")


class Browser:
    """Commands out on one pipe, answers and events in on another, each ended by a zero byte."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._rest, self._last = to, back, b"", 0
        self._events: list[dict[str, Any]] = []

    def tab(self) -> Tab:
        """Open an empty page."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        return Tab(self, self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; AssertionError when it is refused or no answer comes."""
        self._last += 1
        command = {"id": self._last, "method": method, "params": parameters}
        os.write(self._to, json.dumps({**command, **({"sessionId": session} if session else {})}).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            message = self._next(deadline)
            assert message is not None, f"no answer to {method} within {PATIENCE_S:.0f} s"
            if message.get("id") == self._last:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])
            self._events.append(message)

    def wait_for(self, holds: Any) -> None:
        """Ask until it holds; each question is a round trip, which gives the page time."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, "the page did not load"

    def drain(self, tab: Tab) -> None:
        """Hand a tab what it has said and asked for so far."""
        for event in self._events:
            if event.get("sessionId") != tab.session:
                continue
            if event["method"] in LOADED:
                tab.messages.append(json.dumps(event["params"]))
            elif event["method"] == "Network.requestWillBeSent":
                tab.requests.append(event["params"]["request"]["url"])
        self._events = [event for event in self._events if event.get("sessionId") != tab.session]

    def _next(self, deadline: float) -> dict[str, Any] | None:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._back], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            chunk = os.read(self._back, 1 << 16)
            assert chunk, "the browser ended"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))


@contextmanager
def browser(path: str, profile: Path) -> Iterator[Browser]:
    """Run a headless Chromium with a profile of its own; it is ended with the block."""
    (hears, to), (back, says) = os.pipe(), os.pipe()
    words = [path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    words += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-proxy-server", "about:blank"]
    # Their places are fixed: commands on 3, answers on 4. So neither may stand there before it is put there.
    ends = [fcntl(one, F_DUPFD_CLOEXEC, 10) for one in (hears, says)]
    placed = [(os.POSIX_SPAWN_DUP2, one, place) for place, one in zip((3, 4), ends, strict=True)]
    silent = [(os.POSIX_SPAWN_OPEN, one, os.devnull, os.O_RDWR, 0) for one in (0, 1, 2)]
    pid = os.posix_spawn(path, words, {**os.environ, "HOME": str(profile)}, file_actions=[*silent, *placed])
    for one in (hears, says, *ends):
        os.close(one)
    try:
        yield Browser(to, back)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(to)
        os.close(back)
