"""A headless Chromium that is operated as a person does: mouse, fingers, keyboard."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")

PATIENCE_MS = 800_000
"""For each thing that is waited for, since a machine may be busy."""

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
"""A window of a phone, for :func:`opened`."""

Show = Callable[..., Page]
"""Opens an address in a new window; keywords are those of the window."""
Point = tuple[float, float]
"""Pixels of the window, to the right and down."""


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium that ends with the context."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, timeout=PATIENCE_MS)
        yield browser
        browser.close()


def opened(browser: Browser, **window: Any) -> Page:
    """A page in a window of its own, with time for busy machines."""
    page = browser.new_page(**window)
    page.set_default_timeout(PATIENCE_MS)
    return page


@contextlib.contextmanager
def watched(browser: Browser, folder: str = "") -> Iterator[Show]:
    """Open addresses; no page may tell the console anything, or ask for files outside a folder."""
    messages: list[str] = []
    requests: list[str] = []
    pages = []

    def show(address: str, **window: Any) -> Page:
        page = opened(browser, **{"viewport": {"width": 1280, "height": 720}, **window})
        pages.append(page)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        return page

    yield show
    for page in pages:
        page.close()
    assert messages == []
    assert [url for url in requests if not url.startswith((folder, "data:", "blob:"))] == []


def place(page: Page, selector: str, x: float = 0.5, y: float = 0.5) -> Point:
    """A point of an element, scrolled into view: x and y from 0 to 1 along its sides."""
    element = page.locator(selector).first
    element.evaluate("e => e.scrollIntoView({block: 'center', behavior: 'instant'})")
    box = element.bounding_box()
    assert box is not None
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


def drag(page: Page, start: Point, end: Point) -> None:
    """Press the mouse, move it, let it go."""
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()


def touch(page: Page, starts: Sequence[Point], ends: Sequence[Point], steps: int = 5) -> None:
    """Move each finger over the screen, all at once."""
    session = page.context.new_cdp_session(page)

    def send(kind: str, fingers: Sequence[Point]) -> None:
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(fingers)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    send("touchStart", starts)
    for step in range(1, steps + 1):
        way = step / steps
        pairs = zip(starts, ends, strict=True)
        send("touchMove", [(a + way * (c - a), b + way * (d - b)) for (a, b), (c, d) in pairs])
    send("touchEnd", [])
