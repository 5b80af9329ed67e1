"""The report page on a phone, in the dark and on paper, in a real Chromium."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from tests.reporting.browser import PHONE, place, touch
from tests.reporting.report_pictures import take
from tests.reporting.results import make_evaluation, make_run
from tests.reporting.shown_page import (
    HANDLE,
    NEEDS_CHROMIUM,
    STAGE,
    shown_part,
    split,
    texts,
    wait_for_plots,
    written,
)

pytestmark = NEEDS_CHROMIUM


def test_a_phone_needs_no_scrolling_to_the_side_and_two_fingers_zoom(show, address):
    page = show(address, **PHONE)
    menu = [link.bounding_box() for link in page.locator("nav a").all()]
    assert len(menu) == 7
    assert max(box["x"] + box["width"] for box in menu) <= 390
    touch(page, [place(page, HANDLE)], [place(page, STAGE, 0.25)])
    assert split(page) == pytest.approx(25, abs=2)
    x, y = place(page, STAGE)
    touch(page, [(x - 30, y), (x + 30, y)], [(x - 90, y), (x + 90, y)])
    assert shown_part(page)[2] == pytest.approx(3, abs=0.2)
    page.locator("details").evaluate_all("all => all.forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator(STAGE).first.bounding_box()["width"] > 340
    # The main columns are visible without scrolling, and it is visible that there are more.
    for table in page.locator("#metrics table", has=page.get_by_text("gain")).all():
        gain = table.locator("th", has_text="gain").bounding_box()
        assert gain["x"] + gain["width"] <= 390
    shade = "e => getComputedStyle(e).backgroundAttachment"
    assert page.locator("#metrics .scroll").first.evaluate(shade) == "local, scroll"
    assert min(b.bounding_box()["height"] for b in page.locator(".bar button").all()) >= 44


def test_a_phone_shows_the_gain_beside_long_names(show, tmp_path):
    names = ("reproduce-without-spikes", "baseline")
    for name in names:
        make_run(tmp_path, name)
        make_evaluation(tmp_path, name, ("GOPR0384_11_00", "GOPR0385_11_01"))
    page = show(written(tmp_path, *names), **PHONE)
    table = page.locator("#metrics .tall table")
    for metric in ("PSNR", "LPIPS"):
        page.select_option("#metrics select", metric)
        for cell in (table.locator("th", has_text="gain"), table.locator("td:nth-child(4)").first):
            box = cell.bounding_box()
            assert box["x"] + box["width"] <= 375, metric
    # Titles stand above their values.
    aligned = "all => all.map(cell => getComputedStyle(cell).textAlign)"
    heads = table.locator("th").evaluate_all(aligned)
    assert heads == table.locator("tr").last.locator("td").evaluate_all(aligned)


def test_one_run_has_all_kinds_of_memory_in_one_plot(show, tmp_path):
    make_run(tmp_path, "a")
    page = show(written(tmp_path, "a"), **PHONE)
    wait_for_plots(page)
    assert page.locator("#cost select").count() == 0
    memory = page.locator(".chart", has=page.locator("h3", has_text="Memory"))
    assert texts(page, "#cost .legendtext")[-1] == "GPU, peak"
    legend, title = (memory.locator(selector).bounding_box() for selector in (".legend", ".xtitle"))
    assert legend["y"] + legend["height"] < title["y"]


def test_dark_is_dark_curves_follow_and_paper_has_no_switches(show, address):
    page, ink = show(address, color_scheme="dark"), None
    wait_for_plots(page)
    curves = page.locator("#training .plot").first
    # The scheme of the system changes while the page is open.
    for scheme, paper in (("dark", "rgb(20, 23, 28)"), ("light", "rgb(255, 255, 255)")):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "([plot, before]) => plot.layout.font.color !== before",
            arg=[curves.element_handle(), ink],
        )
        ink = curves.evaluate("plot => plot.layout.font.color")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
    page.emulate_media(media="print")
    shown = [
        page.locator(selector).first.is_visible() for selector in ("nav", ".bar", ".thumbs", STAGE)
    ]
    assert shown == [False, False, False, True]


def test_pictures_of_the_documentation_are_as_large_as_their_windows(browser, address, tmp_path):
    take(browser, address, tmp_path)
    pictures = {file.name: cv2.imread(str(file)) for file in tmp_path.iterdir()}
    assert {name: picture.shape[:2] for name, picture in pictures.items()} == {
        "report.jpg": (720, 1280),
        "report-curves.jpg": (560, 1280),
        "report-phone.jpg": (1266, 585),
    }
    brightness = {name: np.median(picture) for name, picture in pictures.items()}
    assert brightness["report-curves.jpg"] < 40 < brightness["report.jpg"]
