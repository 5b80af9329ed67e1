"""A headless Chromium that is operated like by a person: mouse, finger, keyboard, screenshots.

It is driven through its DevTools protocol over a pipe, so that nothing but Chromium is needed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 60.0

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_KEYS = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
    "PageUp": 33,
    "PageDown": 34,
    "Enter": 13,
    "Tab": 9,
}
_SHIFT = 8


@dataclass
class Page:
    """A tab.

    Attributes:
        messages: what its console was told, errors of the page included.
        requests: addresses that it asked for.
    """

    send_to: int
    read_from: int
    session: str = ""
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _number: int = 0
    _unread: bytes = b""

    def call(self, method: str, **parameters: Any) -> Any:  # noqa: ANN401 - JSON of the protocol
        """Call a method of the protocol and wait for its answer.

        Raises:
            RuntimeError: if it fails.
        """
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.send_to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def open(
        self,
        address: str,
        width: int = 1280,
        height: int = 720,
        *,
        scale: float = 1,
        dark: bool = False,
        touch: bool = False,
    ) -> None:
        """Open an address in a window of this size (CSS pixels) and wait until it is loaded."""
        screen = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": touch}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.messages.clear()
        self.requests.clear()
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:  # noqa: ANN401 - any JSON value
        """The value of an expression in the page; promises are awaited.

        Raises:
            RuntimeError: if it throws.
        """
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, expression: str, seconds: float = SECONDS) -> None:
        """Wait until an expression is true.

        Raises:
            TimeoutError: if it does not become so.
        """
        deadline = time.monotonic() + seconds
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} did not become true; {self.messages}")
            time.sleep(0.03)

    def place(self, selector: str, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
        """A point of an element, scrolled into view: x and y from 0 to 1 along its sides."""
        self.value(
            f"document.querySelector({json.dumps(selector)})"
            ".scrollIntoView({block: 'center', behavior: 'instant'})"
        )
        box = self.value(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
        )
        return box[0] + x * box[2], box[1] + y * box[3]

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 4) -> None:
        """Press the mouse, move it, let it go."""
        self._mouse("mousePressed", start, 1)
        for step in range(1, steps + 1):
            self._mouse("mouseMoved", _between(start, end, step / steps), 1)
        self._mouse("mouseReleased", end, 1)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        place = self.place(selector)
        self._mouse("mousePressed", place, 1)
        self._mouse("mouseReleased", place, 1)

    def double_click(self, place: tuple[float, float]) -> None:
        """Click twice."""
        for count in (1, 2):
            self._mouse("mousePressed", place, count)
            self._mouse("mouseReleased", place, count)

    def swipe(self, start: tuple[float, float], end: tuple[float, float], steps: int = 4) -> None:
        """Move one finger over the screen."""
        self._touch("touchStart", [start])
        for step in range(1, steps + 1):
            self._touch("touchMove", [_between(start, end, step / steps)])
        self._touch("touchEnd", [])

    def pinch(self, centre: tuple[float, float], apart: float, factor: float) -> None:
        """Move two fingers beside each other apart by a factor."""

        def fingers(distance: float) -> list[tuple[float, float]]:
            return [(centre[0] - distance / 2, centre[1]), (centre[0] + distance / 2, centre[1])]

        self._touch("touchStart", fingers(apart))
        for step in range(1, 6):
            self._touch("touchMove", fingers(apart * (1 + (factor - 1) * step / 5)))
        self._touch("touchEnd", [])

    def key(self, name: str, *, shift: bool = False) -> None:
        """Press and let go a key, such as ``ArrowLeft`` or ``+``."""
        known = {"key": name, "modifiers": _SHIFT if shift else 0}
        if name in _KEYS:
            known |= {"code": name, "windowsVirtualKeyCode": _KEYS[name]}
        if name == "Enter":
            known["text"] = "\r"
        elif name not in _KEYS:
            known["text"] = name
        self.call("Input.dispatchKeyEvent", type="keyDown", **known)
        known.pop("text", None)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def screenshot(self, path: Path, *, whole: bool = False, quality: int | None = None) -> None:
        """Write what is seen, or the whole page, as PNG or (with a quality) as JPEG."""
        form = {"format": "png"} if quality is None else {"format": "jpeg", "quality": quality}
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **form)
        path.write_bytes(base64.b64decode(found["data"]))

    def _mouse(self, kind: str, place: tuple[float, float], count: int) -> None:
        button = {"button": "left", "clickCount": count, "buttons": kind != "mouseReleased"}
        self.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=place[0],
            y=place[1],
            **{**button, "buttons": 1},
        )

    def _touch(self, kind: str, places: list[tuple[float, float]]) -> None:
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
        self.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self.read_from], [], [], deadline - time.monotonic())
            block = os.read(self.read_from, 1 << 20) if ready else b""
            if not block:
                raise RuntimeError("Chromium does not answer")
            self._unread += block
        message, self._unread = self._unread.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        method, about = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(a.get("value", a)) for a in about["args"]))
        elif method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.messages.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded":
            self.messages.append(f"{about['entry']['source']}: {about['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])


@contextlib.contextmanager
def chromium() -> Iterator[Page]:
    """A tab of a Chromium of its own, which ends with the context.

    Raises:
        RuntimeError: if there is no Chromium.
    """
    if PROGRAM is None:
        raise RuntimeError("no chromium on the path")
    to_read, send_to = os.pipe()
    read_from, to_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # It reads from descriptor 3 and writes to 4; other shells know no numbers of two digits.
        shell = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        process = subprocess.Popen(
            ["bash", "-c", shell, PROGRAM, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        try:
            page = Page(send_to, read_from)
            target = page.call("Target.createTarget", url="about:blank")["targetId"]
            page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            for domain in ("Page", "Runtime", "Log", "Network"):
                page.call(f"{domain}.enable")
            yield page
            page.session = ""
            page.call("Browser.close")
            process.wait(SECONDS)
        finally:
            process.kill()
            process.wait()
            os.close(send_to)
            os.close(read_from)


def _between(
    start: tuple[float, float], end: tuple[float, float], share: float
) -> tuple[float, float]:
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])
