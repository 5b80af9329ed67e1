"""The report page in a browser: its address, its parts and their texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.reporting.browser import PROGRAM
from tests.reporting.results import make_alignment, make_evaluation, make_run, picture
from vrtspike.data.video import video_writer
from vrtspike.reporting.page import write_report_page

HANDLE, STAGE, CAPTION, PANELS = ".handle", ".stage", ".caption", ".panels figcaption"
ORDER, RIGHT = ".thumbs select", ".side.right"


NEEDS_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium"),
]


def write_two_runs(results: Path) -> None:
    """Write a page of two runs: one with spikes, a video and findings; one without spikes."""
    make_run(results, "with_spikes")
    folder = make_evaluation(results, "with_spikes", ("街道_夜间", "GOPR2"))
    make_run(results, "without", MODEL={"USE_SPIKE": False})
    make_evaluation(results, "without", ("街道_夜间",), gain=-1.0, spikes=False)
    make_alignment(results)
    (folder / "videos").mkdir()
    with video_writer(folder / "videos/GOPR2.mp4") as append:
        for seed in range(3):
            append([picture(seed), picture(seed + 5)])
    written(results, "with_spikes", "without")


def written(results: Path, *presets: str) -> str:
    """The address of a page on these runs."""
    write_report_page(results, presets, results, results / "index.html")
    return (results / "index.html").as_uri()


def split(page: Page) -> float:
    """The place of the boundary, by the slider and by the visible part of the left picture."""
    value = float(page.get_attribute(HANDLE, "aria-valuenow"))
    box, handle = (page.locator(name).first.bounding_box() for name in (STAGE, HANDLE))
    percent = 100 * (handle["x"] + handle["width"] / 2 - box["x"]) / box["width"]
    clip = page.locator(f"{STAGE} .layer").nth(1).evaluate("layer => layer.style.clipPath")
    assert percent == pytest.approx(value, abs=1)
    assert 100 - float(clip.split()[1].rstrip("%")) == pytest.approx(value, abs=1)
    return value


def shown_part(page: Page) -> tuple[float, ...]:
    """Shift to the side and down in percent, and zoom: the same of all pictures.

    Pointers stand on whole pixels, so shifts are exact to about one of 200.
    """
    images = page.locator(".view img")
    (transform,) = set(images.evaluate_all("all => all.map(i => i.style.transform)"))
    return tuple(float(number) for number in re.findall(r"-?[\d.]+", transform))


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_text_contents()


def rows(page: Page, selector: str) -> list[list[str]]:
    """The cells of a table."""
    return page.locator(selector).evaluate(
        "table => [...table.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    )


def wait_for_plots(page: Page) -> None:
    """Without a look at them, too: a page that is printed shows them all."""
    page.wait_for_function(
        "() => [...document.querySelectorAll('.plot')].every(p => p.dataset.drawn || p.textContent)"
    )
