"""The live page in a real Chromium, served and refreshed while its run goes on."""

from __future__ import annotations

import pytest

from tests.reporting.browser import PROGRAM, chromium, opened
from tests.reporting.live_runs import append_step, make_live_run, note_status
from tests.reporting.results import HEIGHT, WIDTH
from vrtspike.reporting.live_server import serving
from vrtspike.reporting.live_state import LiveRun

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium"),
]

POINTS = """title => {
    const charts = [...document.querySelectorAll(".chart")];
    const chart = charts.find(other => other.querySelector("h3").textContent === title);
    return chart.querySelector(".plot").data?.map(trace => trace.x.at(-1)) ?? [];
}"""
"""The last step of each line of a chart."""


def test_curves_and_pictures_are_seen_and_follow_the_run(tmp_path):
    folder = make_live_run(tmp_path / "run")
    messages = []
    with serving(LiveRun(folder)) as server, chromium() as browser:
        page = opened(browser, viewport={"width": 1280, "height": 900})
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(server.address)
        page.wait_for_selector(".plot[data-drawn] .scatterlayer .trace path.js-line")
        titles = page.locator(".chart h3").all_text_contents()
        assert titles == [
            "Loss",
            "Validation: PSNR, dB",
            "Validation: SSIM",
            "Learning rate",
            "Samples per second",
            "Gradient norm",
        ]
        line = page.locator(".scatterlayer .trace path.js-line").first.bounding_box()
        assert line["width"] > 100
        assert line["height"] > 20
        picture = page.locator("#pictures img")
        picture.scroll_into_view_if_needed()
        sizes = picture.evaluate("i => [i.naturalWidth, i.naturalHeight]")
        assert sizes == [WIDTH, HEIGHT]
        assert picture.bounding_box()["width"] > 10
        assert "restored, after step 10" in page.text_content("#pictures figcaption")
        facts = page.text_content("#facts")
        assert "PSNR, dB30.00 dB, best 31.50 dB after step 5" in facts
        assert "time left1:30" in facts
        assert page.locator("#progress").evaluate("p => p.value") == pytest.approx(0.1)

        append_step(folder, 11)
        page.wait_for_function("() => document.title.includes('step 11 of 100')")
        page.wait_for_function(f"() => ({POINTS})('Loss').every(step => step === 11)")
        assert page.evaluate(POINTS, "Validation: PSNR, dB") == [10]

        note_status(folder, "finished")
        page.wait_for_function("() => document.title.includes('finished')")
        assert "no longer refreshed" in page.text_content("#connection")
        assert server.end_is_shown.is_set()
    assert messages == []


def test_a_page_before_the_first_step_fills_itself_and_says_when_the_command_ends(tmp_path):
    folder = make_live_run(tmp_path / "run")
    (folder / "metrics.jsonl").write_text("")
    for path in (folder / "pictures").iterdir():
        path.unlink()
    with chromium() as browser:
        page = opened(browser)
        with serving(LiveRun(folder)) as server:
            page.goto(server.address)
            page.wait_for_selector("text=No training step was logged.")
            page.wait_for_selector("text=No pictures: validations write them")
            append_step(folder, 1)
            append_step(folder, 2)
            page.wait_for_selector(".plot[data-drawn] .scatterlayer .trace")
            assert page.locator("text=No training step was logged.").is_hidden()
        page.wait_for_selector("text=The command has ended")
        assert page.locator(".scatterlayer .trace").count() > 0


def test_a_request_without_an_answer_is_repeated(tmp_path):
    folder = make_live_run(tmp_path / "run")
    with serving(LiveRun(folder)) as server, chromium() as browser:
        page = opened(browser)
        page.goto(server.address)
        page.route("**/snapshot.json", lambda route: route.abort(), times=1)
        page.wait_for_selector("text=No answer, trying again.")
        append_step(folder, 11)
        page.wait_for_function("() => document.title.includes('step 11 of 100')")
        assert page.text_content("#connection") == ""
