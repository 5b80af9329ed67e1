"""The pictures of docs/report.md: the demo's page in a desktop's window and on a phone.

make demo
python -m tests.reporting.report_pictures
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.reporting.browser import chromium, opened

DESKTOP = {"viewport": {"width": 1280, "height": 720}}
CURVES = {"viewport": {"width": 1280, "height": 560}, "color_scheme": "dark"}
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 1.5,
    "has_touch": True,
    "is_mobile": True,
}
PICTURES = {
    "report.jpg": (DESKTOP, "h1"),
    "report-phone.jpg": (PHONE, "h1"),
    "report-curves.jpg": (CURVES, "#training"),
}
"""How a window is, and what stands at its top."""


def main() -> None:
    """Parse the arguments, open the page, write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", type=Path, default=Path("results/demo/index.html"))
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    arguments = parser.parse_args()
    with chromium() as browser:
        for name, (window, top) in PICTURES.items():
            page = opened(browser, **window)
            page.goto(arguments.page.resolve().as_uri())
            if top != "h1":
                page.locator(top).evaluate("e => e.scrollIntoView({behavior: 'instant'})")
                page.wait_for_selector(f"{top} .plot[data-drawn=yes]")
            page.screenshot(path=arguments.output / name, type="jpeg", quality=76)


if __name__ == "__main__":
    main()
