"""The pictures of docs/report.md: the demo's page in a desktop's window and on a phone.

make demo
python benchmarks/report_pictures.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from browser import Page, chromium

QUALITY = 76
READY = "document.documentElement.dataset.ready === 'yes'"
CURVES = "document.querySelector('#training .plot').dataset.drawn === 'yes'"


def main() -> None:
    """Parse the arguments, open the page, write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", type=Path, default=Path("results/demo/index.html"))
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    arguments = parser.parse_args()
    address = arguments.page.resolve().as_uri()
    with chromium() as page:
        page.open(address, 1280, 720)
        _take(page, arguments.output / "report.jpg")
        page.open(address, 390, 844, scale=1.5, touch=True)
        _take(page, arguments.output / "report-phone.jpg")
        page.open(address, 1280, 560, dark=True)
        page.wait(CURVES)
        page.value("document.querySelector('#training').scrollIntoView({behavior: 'instant'})")
        page.wait("document.fonts.status === 'loaded'")
        _take(page, arguments.output / "report-curves.jpg")


def _take(page: Page, path: Path) -> None:
    page.wait(READY)
    page.wait("[...document.images].every(image => image.complete || image.loading === 'lazy')")
    page.screenshot(path, quality=QUALITY)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    if page.messages:
        raise SystemExit(f"the page told the console: {page.messages}")


if __name__ == "__main__":
    main()
