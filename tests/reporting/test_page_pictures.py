"""Pictures of the report page in a real Chromium: sliders, zoom, choice of frames, a video."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.reporting.browser import drag, place
from tests.reporting.results import HEIGHT, WIDTH, make_evaluation, make_run, picture, write_picture
from tests.reporting.shown_page import (
    CAPTION,
    HANDLE,
    NEEDS_CHROMIUM,
    ORDER,
    PANELS,
    RIGHT,
    STAGE,
    shown_part,
    split,
    texts,
    written,
)
from vrtspike.io.files import read_json, write_json
from vrtspike.runs.validation_pictures import picture_file

pytestmark = NEEDS_CHROMIUM


def test_the_boundary_follows_mouse_and_keyboard(page):
    assert split(page) == 50
    drag(page, place(page, HANDLE), place(page, STAGE, 0.2))
    assert split(page) == pytest.approx(20, abs=1)
    # A click anywhere brings it there; beyond the edge it stays at the edge.
    page.mouse.click(*place(page, STAGE, 0.7, 0.9))
    assert split(page) == pytest.approx(70, abs=1)
    drag(page, place(page, HANDLE), place(page, STAGE, 1.3))
    assert split(page) == 100
    page.focus(HANDLE)
    for key, value in (
        *(("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("PageUp", 11), ("ArrowLeft", 10)),
        *(("PageDown", 0), ("End", 100)),
    ):
        page.keyboard.press(key)
        assert split(page) == value, key
    says = [page.get_attribute(HANDLE, name) for name in ("role", "aria-valuetext")]
    assert says == ["slider", "Blurry up to 100 %, then Restored"]
    ring = "handle => getComputedStyle(handle, '::after').outlineStyle"
    assert page.locator(HANDLE).evaluate(ring) == "solid"


def test_all_pictures_zoom_and_move_in_step(page):
    assert page.locator(".view img").count() == 5
    page.mouse.dblclick(*place(page, STAGE, 0.25, 0.5))
    # The point under the pointer stays: a quarter of the picture is left of it, times three.
    assert shown_part(page) == pytest.approx((-50, -100, 3), abs=1)
    assert page.text_content(".zoom") == "300 %"
    before = split(page)
    drag(page, place(page, STAGE, 0.8, 0.5), place(page, STAGE, 0.9, 0.25))
    assert shown_part(page) == pytest.approx((-40, -125, 3), abs=2)
    assert split(page) == before
    # Beyond the edge there is nothing to be seen.
    for _ in range(2):
        drag(page, place(page, ".panel", 0.1, 0.1), place(page, ".panel", 0.9, 0.9))
    assert shown_part(page) == (0, 0, 3)
    page.click("button[aria-label='Show the whole picture']")
    assert shown_part(page) == (0, 0, 1)
    page.focus(HANDLE)
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowRight")
    assert shown_part(page) == pytest.approx((-35, -25, 1.5))
    page.keyboard.press("0")
    assert shown_part(page) == (0, 0, 1)


def test_frames_are_chosen_in_three_orders_by_mouse_and_keyboard(page):
    # They have 20 to 25 dB; the middle one is 22.
    assert [text[:5] for text in texts(page, ".thumb")] == [
        "22.00", "21.00", "23.00", "20.00", "24.00", "25.00",
    ]  # fmt: skip
    typical = (
        "街道_夜间, frame 000003: typical, with the median PSNR of the 6 frames shown "
        "(within its sequence the best)"
    )
    assert page.text_content(CAPTION).startswith(typical)
    page.select_option(ORDER, "worst first")
    worst = texts(page, ".thumb")
    assert worst[0] == "20.00 dB街道_夜间 000001"
    page.select_option(ORDER, "best first")
    assert texts(page, ".thumb") == worst[::-1]

    def selected() -> int:
        return page.locator(".thumb").evaluate_all(
            "all => all.findIndex(thumb => thumb.getAttribute('aria-selected') === 'true')"
        )

    assert selected() == 0
    page.select_option(ORDER, "worst first")
    first = page.locator(f"{STAGE} img").first.get_attribute("src")
    page.click(".thumb:nth-child(3)")
    assert selected() == 2
    assert page.locator(f"{STAGE} img").first.get_attribute("src") != first
    assert page.text_content(CAPTION).startswith(typical)
    page.click(".thumb:nth-child(2)")
    assert "median" not in page.text_content(CAPTION)
    page.click(".thumb:nth-child(3)")
    assert "PSNR18.00 → 22.00 dB (spikes alone, grey 15.00)" in page.text_content(CAPTION)
    for key, place_ in (
        *(("ArrowDown", 3), ("ArrowDown", 4), ("ArrowLeft", 3)),
        *(("End", 5), ("ArrowDown", 5), ("Home", 0)),
    ):
        page.keyboard.press(key)
        assert selected() == place_
    assert page.evaluate("document.activeElement.className") == "thumb"


def panels(page: Page) -> list[str]:
    names = "all => all.map(caption => caption.firstChild.data)"
    return page.locator(PANELS).evaluate_all(names)


def test_panels_sides_and_runs_are_chosen(page):
    assert panels(page) == ["Sharp", "Spike image", "Error map"]
    button = page.locator("#pictures .bar button:nth-child(2)")
    button.click()
    assert panels(page) == ["Sharp", "Error map"]
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert panels(page) == ["Sharp", "Spike image", "Error map"]
    assert page.text_content(".scale") == " 032+"
    assert texts(page, f"{RIGHT} option") == [
        "Blurry", "Restored", "Sharp", "Spike image", "Error map", "Restored by without",
    ]  # fmt: skip
    page.select_option(RIGHT, "sharp")
    shown = [page.locator(f"{selector} img").first for selector in (".layer", ".panel")]
    assert shown[0].get_attribute("src") == shown[1].get_attribute("src")
    page.select_option("#pictures .bar label select >> nth=0", "1")
    assert page.locator(".thumb").count() == 3
    assert panels(page) == ["Sharp", "Error map"]


def test_the_pictures_begin_with_the_preset_of_the_headline(show, tmp_path):
    for name, gain in (("first", 4.0), ("better", 5.0)):
        make_run(tmp_path, name)
        metrics = {"psnr": {"blurry": 18.0, "restored": 18 + gain, "gain": gain}}
        make_evaluation(tmp_path, name, metrics=metrics)
    page = show(written(tmp_path, "first", "better"))
    assert page.text_content("h1").startswith("Preset better")
    chosen = page.locator("#pictures .bar select").evaluate("s => s.selectedOptions[0].textContent")
    assert chosen == "better"
    assert "Restored by first" in texts(page, f"{RIGHT} option")


def test_frames_that_equal_the_sharp_ones_have_no_psnr_and_no_other_values(show, tmp_path):
    """A dash for the infinite PSNR of the restored frame, not the blurry one's PSNR alone."""
    make_run(tmp_path, "a")
    reason = "some frames equal the sharp ones: the mean is not finite"
    metrics = {"psnr": {"blurry": 18.0, "restored": None, "gain": None, "reason": reason}}
    folder = make_evaluation(tmp_path, "a", ("one",), metrics=metrics)
    index = read_json(folder / "examples/examples.json")
    index["examples"] = index["examples"][:1]
    index["examples"][0]["metrics"] |= {"psnr": None, "lpips": None, "lpips_blur": None}
    write_json(folder / "examples/examples.json", index)
    page = show(written(tmp_path, "a"))
    assert page.text_content(".thumb b") == "–"
    assert page.text_content(CAPTION).endswith("PSNR16.00 → – dB (spikes alone, grey 15.00)")
    assert f"No PSNR of a: {reason}." in page.text_content("#metrics details")
    assert texts(page, "#metrics tbody td")[:5] == ["PSNR, dB", "–", "–", "18.00", "15.00 (grey)"]


def test_pictures_of_validations_follow_a_slider(show, tmp_path):
    for name, steps in (("a", (20, 40)), ("b", (40,)), ("none", ())):
        make_run(tmp_path, name)
        make_evaluation(tmp_path, name)
        for step in steps:
            write_picture(picture_file(tmp_path / "train" / name, step, "restored"), picture(step))
    page = show(written(tmp_path, "a", "b", "none"))
    slider = page.locator(".validations input")

    def shown() -> tuple[str, str | None]:
        image = page.locator(".validations img")
        assert image.evaluate("i => i.decode().then(() => i.naturalWidth)") == WIDTH
        return page.text_content(".validations output"), image.get_attribute("src")

    text, last = shown()
    assert text == "after step 40, 2 of 2"
    slider.press("Home")
    text, first = shown()
    assert text == slider.get_attribute("aria-valuetext") == "after step 20, 1 of 2"
    assert first != last
    page.select_option(".validations select", "b")
    assert shown() == ("after step 40, 1 of 1", last)
    assert slider.is_disabled()
    assert texts(page, ".validations option") == ["a", "b"]


def test_a_video_plays(page):
    video = page.locator("video")
    video.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('video').readyState >= 2")
    assert video.evaluate("v => [v.videoWidth, v.videoHeight]") == [2 * WIDTH, HEIGHT]
    video.evaluate("v => v.play()")
    page.wait_for_function("() => document.querySelector('video').currentTime > 0")
