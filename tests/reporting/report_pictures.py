"""The pictures of docs/report.md: the demo's page in a window of a desktop and of a phone.

make demo
python -m tests.reporting.report_pictures
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from tests.reporting.browser import PHONE, chromium, opened

WINDOWS: dict[str, dict[str, Any]] = {
    "report.jpg": {"viewport": {"width": 1280, "height": 720}},
    "report-curves.jpg": {"viewport": {"width": 1280, "height": 560}, "color_scheme": "dark"},
    "report-phone.jpg": {**PHONE, "device_scale_factor": 1.5},
}
AT_THE_TOP = {"report-curves.jpg": "#training"}
"""Part of the page that is shown first; the other pictures show its beginning."""

JPEG_QUALITY = 76


def take(browser: Browser, address: str, folder: Path) -> None:
    """Write the pictures of the page at ``address`` to ``folder``."""
    for name, window in WINDOWS.items():
        page = opened(browser, **window)
        page.goto(address)
        page.wait_for_function("[...document.images].every(image => image.complete)")
        part = AT_THE_TOP.get(name)
        if part is not None:
            page.locator(part).evaluate("e => e.scrollIntoView({behavior: 'instant'})")
            page.wait_for_selector(f"{part} .plot[data-drawn=yes]")
        page.screenshot(path=folder / name, type="jpeg", quality=JPEG_QUALITY)
        page.close()


def main() -> None:
    """Parse the arguments and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", type=Path, default=Path("results/demo/index.html"))
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    arguments = parser.parse_args()
    with chromium() as browser:
        take(browser, arguments.page.resolve().as_uri(), arguments.output)


if __name__ == "__main__":
    main()
