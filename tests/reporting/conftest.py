"""The report page in a real Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.reporting.browser import Show


# Imported in the fixtures, because other tests of the page do without a browser.
@pytest.fixture(scope="session")
def address(make_once: Callable[[str, Callable[[Path], object]], Path]) -> str:
    """The address of a page on two runs: with spikes, a video and findings; without spikes."""
    from tests.reporting.shown_page import write_two_runs

    return (make_once("report-page", write_two_runs) / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    from tests.reporting.browser import chromium

    with chromium() as browser:
        yield browser


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Open an address in a new window; no page may have anything to tell the console."""
    from tests.reporting.browser import watched

    with watched(browser) as show:
        yield show


@pytest.fixture
def page(show: Show, address: str) -> Page:
    """The page of two runs in a window of 1280 x 720 pixels."""
    return show(address)
