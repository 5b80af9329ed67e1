"""The page of restored frames in a real Chromium, opened as a file."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.reporting.browser import PHONE, PROGRAM, Show, chromium, drag, opened, place, watched
from tests.reporting.shown_page import texts
from tests.restoration.folder_runs import NAMES
from vrtspike.restoration.folder.opened_request import open_request
from vrtspike.restoration.page.compared_frames import read_compared
from vrtspike.restoration.page.writing import write_folder_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium"),
]


@pytest.fixture(scope="module")
def folder(whole, model, small_run, tmp_path_factory) -> Path:
    """A restored folder with a page on two models; the fourth frame of the first is in doubt."""
    job, record = whole
    output = tmp_path_factory.mktemp("page") / "restored # 1"
    shutil.copytree(job.output, output)
    frames = [dict(frame) for frame in record["frames"]]
    for number, frame in enumerate(frames):
        frame["psnr"] = frame["psnr_blur"] + 1
        frame["reblur"] = frame["reblur_blur"] + (-1 if number == 3 else 1)
    job = replace(job, output=output)
    opened = open_request(model.run, job)
    compared = read_compared(small_run.raw / "test/b/sharp", NAMES, opened.source.size)
    progress = contextlib.nullcontext(lambda *done: None)
    write_folder_page(
        opened, record | {"frames": frames}, compared,
        open_progress=lambda title: progress, embedded_bytes=0,
    )  # fmt: skip
    return output


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def show(browser: Browser, folder: Path) -> Iterator[Show]:
    """Opens the page in a new window; it may ask for nothing outside its folder, nor complain."""
    with watched(browser, f"{folder.as_uri()}/") as show:
        yield partial(show, (folder / "index.html").as_uri())


def wait_for_pictures(page: Page) -> None:
    """Wait until every picture in the views is there."""
    page.wait_for_function(
        "() => [...document.querySelectorAll('.view img')].every(i => i.naturalWidth > 0)"
    )


def test_the_boundary_moves_over_pictures_in_files(show):
    page = show()
    wait_for_pictures(page)
    address = page.locator(".stage img").first.get_attribute("src")
    assert address.startswith("page/000004_")
    drag(page, place(page, ".handle"), place(page, ".stage", 0.2))
    assert float(page.get_attribute(".handle", "aria-valuenow")) == pytest.approx(20, abs=1)
    clip = page.locator(".stage .layer").nth(1).evaluate("layer => layer.style.clipPath")
    assert 100 - float(clip.split()[1].rstrip("%")) == pytest.approx(20, abs=1)


def test_a_page_with_small_pictures_is_shown_without_other_files(browser, whole, model, tmp_path):
    job, record = whole
    job = replace(job, output=shutil.copytree(job.output, tmp_path / "restored"))
    progress = contextlib.nullcontext(lambda *done: None)
    write_folder_page(
        open_request(model.run, job), record | {"written": []}, open_progress=lambda title: progress
    )
    alone = (job.output / "index.html").rename(tmp_path / "mailed.html")
    shutil.rmtree(job.output)
    requests: list[str] = []
    page = opened(browser, viewport={"width": 1280, "height": 720})
    page.on("request", lambda request: requests.append(request.url))
    page.goto(alone.as_uri())
    wait_for_pictures(page)
    address = page.locator(".stage img").first.get_attribute("src")
    assert address.startswith("data:image/webp;base64,")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.thumb img')].every(i => i.naturalWidth > 0)"
    )
    assert {url for url in requests if not url.startswith(("data:", "blob:"))} == {alone.as_uri()}
    assert page.locator("video").count() == 0
    page.close()


def test_frames_in_doubt_come_first_and_orders_are_chosen(show):
    page = show()

    def frames() -> list[str]:
        numbers = "all => all.map(thumb => thumb.textContent.match(/0000\\d\\d/)[0])"
        return page.locator(".thumb").evaluate_all(numbers)

    assert frames() == [NAMES[3], NAMES[0], NAMES[1], NAMES[2], NAMES[4]]
    assert "In doubt: PSNR when blurred again is below" in page.text_content(".caption")
    assert [("in doubt" in text) for text in texts(page, ".thumb")] == [True] + [False] * 4
    page.select_option(".thumbs select", "in time")
    assert frames() == NAMES
    assert "In doubt" not in page.text_content(".caption")
    page.focus(".thumb")
    page.keyboard.press("ArrowDown")
    wait_for_pictures(page)
    assert page.locator(".stage img").first.get_attribute("src").startswith("page/000002_")


def test_pictures_of_both_models_are_chosen(show):
    page = show()
    kinds = texts(page, ".side.right option")
    assert kinds == [
        *("Blurry", "Restored", "Sharp", "Spike image", "Error map", "Difference"),
        *("Blurred again", "Restored by sharp"),
    ]
    page.select_option(".side.left", label="Restored by sharp")
    wait_for_pictures(page)
    assert "restored-1" in page.locator(".stage .layer").nth(1).locator("img").get_attribute("src")
    panels = "all => all.map(caption => caption.firstChild.data)"
    shown = page.locator(".panels figcaption").evaluate_all(panels)
    assert shown == ["Sharp", "Spike image", "Error map"]
    page.locator("#pictures .bar button", has_text="Blurred again").click()
    assert page.locator(".panels figcaption").evaluate_all(panels)[-1] == "Blurred again"


def test_curves_show_the_metrics_of_every_frame(show):
    page = show()
    plots = page.locator("#curves .plot")
    plots.first.scroll_into_view_if_needed()
    count = plots.count()
    assert count == 4
    page.wait_for_function(
        "count => document.querySelectorAll('#curves .plot[data-drawn]').length === count",
        arg=count,
    )
    names = plots.first.evaluate("plot => plot.data.map(trace => trace.name)")
    assert names[0] == "blurry"
    assert names[-1] == "sharp"
    doubt = plots.first.evaluate("plot => plot.data.find(t => t.name.startsWith('in doubt')).x")
    assert doubt == [NAMES[3]]


def test_videos_beside_the_page_play(show):
    page = show()
    assert page.locator("video").count() == 2
    captions = texts(page, ".videos figcaption")
    assert all(text.endswith(" MB, in a file of its own beside this page") for text in captions)
    page.locator("video").first.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('video').readyState >= 1")


@pytest.mark.parametrize("window", [{}, PHONE], ids=["1280", "390"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_needs_scrolling_to_the_side(show, window, scheme):
    page = show(**window, color_scheme=scheme)
    wait_for_pictures(page)
    page.locator("details").evaluate_all("all => all.forEach(d => { d.open = true; })")
    width = window.get("viewport", {"width": 1280})["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    papers = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == papers[scheme]
