"""The page in a real Chromium: mouse, finger, keyboard, narrow and dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import cv2
import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page

from tests.reporting.browser import PHONE, PROGRAM, chromium, drag, opened, place, touch
from tests.reporting.report_pictures import take
from tests.reporting.results import (
    HEIGHT,
    WIDTH,
    make_alignment,
    make_evaluation,
    make_run,
    picture,
    write_picture,
)
from vrtspike.data.video import video_file
from vrtspike.io.files import read_json, write_json
from vrtspike.reporting.page import write_report_page
from vrtspike.runs.validation_pictures import picture_file

HANDLE, STAGE, CAPTION, PANELS = ".handle", ".stage", ".caption", ".panels figcaption"
ORDER, RIGHT = ".thumbs select", ".side.right"
Show = Callable[..., Page]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two runs: one with spikes, a video and findings; one without spikes."""
    results = tmp_path_factory.mktemp("results")
    make_run(results, "with_spikes")
    folder = make_evaluation(results, "with_spikes", ("街道_夜间", "GOPR2"))
    make_run(results, "without", MODEL={"USE_SPIKE": False})
    make_evaluation(results, "without", ("街道_夜间",), gain=-1.0, spikes=False)
    make_alignment(results)
    (folder / "videos").mkdir()
    with video_file(folder / "videos/GOPR2.mp4") as append:
        for seed in range(3):
            append([picture(seed), picture(seed + 5)])
    return written(results, "with_spikes", "without")


def written(results: Path, *presets: str) -> str:
    """The address of a page on these runs."""
    write_report_page(results, presets, results, results / "index.html")
    return (results / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Opens an address in a new window; no page may have anything to tell the console."""
    messages, pages = [], []

    def show(address: str, **window: Any) -> Page:
        page = opened(browser, **{"viewport": {"width": 1280, "height": 720}, **window})
        pages.append(page)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(address)
        return page

    yield show
    for page in pages:
        page.close()
    assert messages == []


@pytest.fixture
def page(show: Show, address: str) -> Page:
    return show(address)


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


def test_tables_sort_by_mouse_and_keyboard(page):
    def column(place: int) -> list[str]:
        return [cells[place] for cells in rows(page, "#figures .tall table")[1:]]

    assert rows(page, "#figures .tall table")[0] == [
        "preset", "sequence", "restored", "gain", "blurry", "spikes alone, grey", "frames",
    ]  # fmt: skip
    heads = page.locator("#figures .tall thead th")
    restored = heads.nth(2)
    assert restored.get_attribute("aria-sort") is None
    restored.locator("button").click()
    assert restored.get_attribute("aria-sort") == "ascending"
    assert column(2) == ["21.00", "21.00", "24.00"]
    restored.locator("button").press("Enter")
    assert restored.get_attribute("aria-sort") == "descending"
    assert column(2) == ["24.00", "21.00", "21.00"]
    # Rows without a figure come last in both orders.
    for _ in range(2):
        heads.nth(5).locator("button").click()
        assert column(5)[-1] == "–"
    assert restored.get_attribute("aria-sort") is None
    assert "−1.00" in column(3)
    page.select_option("#figures select", "LPIPS")
    assert set(column(3)) == {"+0.2500"}  # LPIPS went down by as much


def test_all_metrics_stand_in_one_table_that_fits(page):
    figures = rows(page, "#figures table >> nth=0")
    assert figures[0] == ["preset", "metric", "restored", "gain", "blurry", "spikes alone"]
    assert ["with_spikes", "PSNR, dB", "22.50", "+4.00", "18.50", "15.00 (grey)"] in figures
    assert ["without", "LPIPS", "0.2500", "+0.2500", "0.5000", "–"] in figures
    costs = rows(page, "#figures table >> nth=1")
    assert costs[1] == ["with_spikes", "0.7", "0.50", "1.2", "0.0"]
    assert costs[0][2:] == ["restoring, s a frame", "parameters, M", "weights, MB"]
    widths = page.locator("table").evaluate_all("all => all.map(table => table.scrollWidth)")
    assert max(widths) <= 1240


def test_the_pictures_begin_with_the_preset_of_the_headline(show, tmp_path):
    for name, gain in (("first", 4.0), ("better", 5.0)):
        make_run(tmp_path, name)
        figures = {"psnr": {"blurry": 18.0, "restored": 18 + gain, "gain": gain}}
        make_evaluation(tmp_path, name, metrics=figures)
    page = show(written(tmp_path, "first", "better"))
    assert page.text_content("h1").startswith("Preset better")
    chosen = page.locator("#pictures .bar select").evaluate("s => s.selectedOptions[0].textContent")
    assert chosen == "better"
    assert "Restored by first" in texts(page, f"{RIGHT} option")


def test_spikes_alone_are_explained_where_they_win(page, show, tmp_path):
    assert page.locator(".remarks").count() == 0
    make_run(tmp_path, "a")
    table = make_evaluation(tmp_path, "a") / "sequences.csv"
    table.write_text(table.read_text().replace(",15.0,", ",23.0,"))
    text = show(written(tmp_path, "a")).text_content(".remarks")
    # Restored: 21 and 24 dB.
    assert text.startswith("On 1 of 2 sequences (GOPR1) the picture from spikes alone has the")


HOSTILE = "</script><script>alert(1)</script>\"'&{{data}}"


def test_runs_of_other_frames_and_metrics_are_not_mixed_up(show, tmp_path):
    """One ranked by LPIPS beside one ranked by PSNR, names that are no names."""
    made = {
        "psnr": {"sequences": (HOSTILE.replace("/", ""), "b" * 200)},
        "lpips": {"sequences": ("b" * 200,), "data": "reds"},
    }
    for name, contents in made.items():
        make_run(tmp_path, name)
        make_evaluation(tmp_path, name, **contents)
    video = tmp_path / "evaluate/psnr/videos" / "街 #1?%20&.mp4"
    video.parent.mkdir()
    video.write_bytes(bytes(2_100_000))  # too large for the page
    path = tmp_path / "evaluate/lpips/summary.json"
    figures = {"lpips": {"blurry": 0.25, "restored": 0.250001, "gain": -0.000001}}
    worst = [{"sequence": HOSTILE, "frame": "1", "lpips": 0.25}]
    write_json(path, read_json(path) | {"metrics": figures, "worst": worst})
    better = {"psnr": "improved above the line", "lpips": "improved below the line"}
    for names in (("psnr", "lpips"), ("lpips", "psnr")):
        page = show(written(tmp_path, *names))
        text = page.text_content("#figures")
        assert "evaluated on different frames" in text
        assert "lpips: 3 frames of 1 sequence in reds/test, blurry ones of blur" in text
        assert better[names[0]] in text
        link = page.locator(".videos a").get_attribute("href")
        assert unquote(urlsplit(link).path).endswith(video.name)
        options = texts(page, f"{RIGHT} option")
        assert not [option for option in options if option.startswith("Restored by")]
        assert set(texts(page, "#figures .chart tbody td:nth-child(1)")) == {names[0]}
    # A change that is shown as zero is neither better nor worse.
    (gain,) = (
        row.locator("td").nth(3)
        for row in page.locator("#figures table").first.locator("tbody tr").all()
        if row.locator("td").all_text_contents()[:2] == ["lpips", "LPIPS"]
    )
    assert gain.text_content() == "0.0000"
    assert gain.locator("> *").first.get_attribute("class") in (None, "")
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    # A long name leaves the figures in sight.
    cell = page.locator("#figures .tall td:nth-child(3)").first.bounding_box()
    assert cell["x"] + cell["width"] < 1280
    page = show(page.url, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_figures_of_two_protocols_do_not_stand_in_one_table(show, tmp_path):
    for name, protocol in (("a", "own"), ("b", "vrt")):
        make_run(tmp_path, name)
        folder = make_evaluation(tmp_path, name, ("one",), protocol=protocol)
        for table in (folder / "frames.csv", folder / "sequences.csv"):
            head, *lines = table.read_text().splitlines()
            kept = [f"{head},protocol", *(f"{line},{protocol}" for line in lines)]
            table.write_text("\n".join(kept) + "\n")
    page = show(written(tmp_path, "a", "b"))
    for metric, cells in {
        "PSNR": [["a", "one", "21.00", "+4.00"], ["b", "one", "–", "–"]],
        "PSNR (vrt)": [["a", "one", "–", "–"], ["b", "one", "21.00", "+4.00"]],
    }.items():
        page.select_option("#figures select", metric)
        assert [row[:4] for row in rows(page, "#figures .tall table")[1:]] == cells


def test_worst_frames_are_shown_if_there_are_any(show, tmp_path):
    make_run(tmp_path, "a")
    make_evaluation(tmp_path, "a")
    path = tmp_path / "evaluate/a/summary.json"
    drawn = "PSNR of every test frame, improved above the line"
    for worst, shown in (([], [drawn]), (read_json(path)["worst"], [drawn, "Worst frames"])):
        write_json(path, read_json(path) | {"worst": worst})
        assert texts(show(written(tmp_path, "a")), "#figures h3") == shown


def test_frames_that_equal_the_sharp_ones_have_no_figure_and_no_other_ones(show, tmp_path):
    """A dash for the infinite PSNR of the restored frame, not the blurry one's PSNR alone."""
    make_run(tmp_path, "a")
    reason = "some frames equal the sharp ones: the mean is not finite"
    figures = {"psnr": {"blurry": 18.0, "restored": None, "gain": None, "reason": reason}}
    folder = make_evaluation(tmp_path, "a", ("one",), metrics=figures)
    index = read_json(folder / "examples/examples.json")
    index["examples"] = index["examples"][:1]
    index["examples"][0]["metrics"] |= {"psnr": None, "lpips": None, "lpips_blur": None}
    write_json(folder / "examples/examples.json", index)
    page = show(written(tmp_path, "a"))
    assert page.text_content(".thumb b") == "–"
    assert page.text_content(CAPTION).endswith("PSNR16.00 → – dB (spikes alone, grey 15.00)")
    assert f"No PSNR of a: {reason}." in page.text_content("#figures details")
    assert texts(page, "#figures tbody td")[:5] == ["PSNR, dB", "–", "–", "18.00", "15.00 (grey)"]


def wait_for_plots(page: Page) -> None:
    """Without a look at them, too: a page that is printed shows them all."""
    page.wait_for_function(
        "() => [...document.querySelectorAll('.plot')].every(p => p.dataset.drawn || p.textContent)"
    )


def test_curves_obey_their_switches(page):
    wait_for_plots(page)
    curves = page.locator("#training .plot").first

    def wait(condition: str) -> None:
        page.wait_for_function(f"plot => {condition}", arg=curves.element_handle())

    names = "plot => plot.data.map(t => t.name)"
    assert curves.evaluate(names) == ["with_spikes"] * 2 + ["without"] * 2
    assert curves.evaluate("plot => plot.layout.yaxis.type") == "log"
    page.click("#training [role=group] label:nth-child(1) input")
    wait("plot.data.length === 2")
    assert curves.evaluate(names) == ["without"] * 2
    page.click("#training .bar > label:nth-child(3) input")
    wait("plot.layout.yaxis.type === 'linear'")
    smoothing = page.locator("#training input[type=range]")
    smoothing.fill("0")
    wait("plot.data.length === 1")
    assert curves.evaluate("plot => plot.data[0].y[1]") == 0.5  # the second loss of 1, 1/2, ...
    smoothing.fill("0.2")
    wait("plot.data.length === 2")
    # (0.2 x 0.8 x 1 + 0.8 x 1/2) / 0.96
    assert curves.evaluate("plot => plot.data[1].y[1]") == pytest.approx(0.56 / 0.96)
    page.select_option("#training .charts select", "learning rate")
    wait("plot.data[0].y[0] === 0.001")


def test_every_chart_is_drawn_shows_values_under_the_pointer_and_sends_nothing(page):
    wait_for_plots(page)
    assert page.locator(".plot").count() == 9
    validation = page.locator("#training .charts > div:nth-child(2)")
    assert validation.locator(".plot").evaluate("p => p.layout.yaxis.type") == "linear"
    page.mouse.move(*place(page, "#training .charts > div:nth-child(2) .points path"))
    hover = validation.locator(".hoverlayer")
    hover.locator("text").first.wait_for(state="attached")
    assert "28" in hover.text_content()
    assert "with" in hover.text_content()
    # A headless browser has no mouse to hover with: the same options, with the buttons shown.
    drawn = page.locator(".plot[data-drawn]")
    drawn.evaluate_all(
        "all => void all.forEach(p => Plotly.newPlot(p, p.data, p.layout,"
        " {...p._context, displayModeBar: true}))"
    )
    assert drawn.count() >= 8
    for plot in drawn.all():
        plot.locator(".modebar-btn").first.wait_for(state="attached")
    buttons = page.locator(".modebar-btn").evaluate_all("all => all.map(b => b.dataset.title)")
    assert set(buttons) == {
        "Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes",
    }  # fmt: skip
    assert drawn.first.evaluate("p => p._context.plotlyServerURL") == ""


def test_charts_and_costs_show_the_figures_of_the_results(page):
    wait_for_plots(page)
    cells = ["1,000", "2", "30.0", "1000", "10000", "0.5"]
    assert texts(page, "#cost tbody td") == ["with_spikes", *cells, "without", *cells]

    def traces(title: str, what: str) -> list[Any]:
        chart = page.locator(".chart", has=page.locator("h3", has_text=re.compile(f"^{title}")))
        return chart.locator(".plot").evaluate(f"plot => plot.data.map(t => {what})")

    line, first, second = traces("PSNR of every test frame", "[t.x, t.y]")
    assert (first[0][:2], first[1][:2]) == ([16, 17], [20, 21])
    assert second == [[21, 22, 23], [20, 21, 22]]  # worse than blurry
    assert line == [[16, 23], [16, 23]]
    shares = dict(traces("Where a step goes", "[t.name, t.x[0]]"))
    assert shares == pytest.approx({"data": 30, "forward": 22, "backward": 40, "other": 8})
    (names, medians, more), _ = traces("Time per section", "[t.y, t.x, t.error_x.array]")
    assert names == ["step", "step/data", "step/forward", "step/forward/vrt", "step/backward"]
    assert (medians, more) == ([1000, 300, 220, 210, 400], [0] * 5)
    (steps, rates), _ = traces("Samples per second", "[t.x, t.y]")
    assert (steps, rates[1:]) == (list(range(1, 41)), [2] * 39)
    page.select_option("#cost select", "GPU, peak")
    memory = page.locator(".chart", has=page.locator("h3", has_text="Memory")).locator(".plot")
    page.wait_for_function("plot => plot.data[0].y[0] === 10000", arg=memory.element_handle())
    assert dict(traces("Memory", "[t.name, t.y]")) == {"with_spikes": [10_000], "without": [10_000]}
    assert traces("Correlation", "t.x") == [[0.95, 0.8]]
    offsets = traces("Found less expected", "[t.x, t.error_x.array, t.error_x.arrayminus]")
    assert offsets == [[[0.5, 0.5], [0, 1.5], [0, 1.5]]]


def test_points_and_picture_of_a_chart_are_saved(page, tmp_path):
    wait_for_plots(page)

    def saved(title: str, form: str) -> Path:
        button = page.get_by_role("button", name=f"Save as {form}: {title}")
        with page.expect_download() as download:
            button.press("Enter")
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    path = saved("Training", "CSV")
    assert path.name == "Training.csv"
    table = pd.read_csv(path)
    assert list(table) == ["series", "step", "loss"]
    runs = table.groupby("series", sort=False)["loss"].apply(list)
    # The logged values, not the smoothed ones.
    assert {name: values[:3] for name, values in runs.items()} == {
        "with_spikes": [1, 0.5, 0.333333],
        "without": [1, 0.5, 0.333333],
    }
    assert len(table) == 80
    frames = pd.read_csv(saved("PSNR of every test frame", "CSV"))
    assert frames["point"].tolist()[0] == "with_spikes, 街道_夜间, frame 000001"
    assert frames["PSNR restored, dB"].tolist() == [20, 21, 22, 23, 24, 25, 20, 21, 22]
    offsets = pd.read_csv(saved("Found less expected", "CSV")).set_index("y")
    assert offsets.loc["test/b", ["spike steps", "low", "high"]].tolist() == [0.5, -1, 2]
    shares = pd.read_csv(saved("Where a step goes", "CSV"))
    assert list(shares) == ["series", "share of a step, %", "y"]
    picture = saved("Validation", "SVG")
    assert picture.name == "Validation.svg"
    text = picture.read_text()
    assert text.startswith("<svg")
    assert ">PSNR, dB</text>" in text


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


def test_the_plot_of_frames_has_a_legend_and_follows_the_metric(page):
    wait_for_plots(page)
    chart = page.locator("#figures .chart", has=page.locator(".plot"))
    assert texts(page, "#figures .chart .legendtext") == ["no change", "with_spikes", "without"]
    page.select_option("#figures select", "LPIPS")
    assert chart.locator("h3").text_content().startswith("LPIPS of every test frame, improved bel")
    page.wait_for_function(
        "plot => plot.layout.yaxis.title.text.startsWith('LPIPS')",
        arg=chart.locator(".plot").element_handle(),
    )
    points = chart.locator(".plot").evaluate("plot => plot.data.map(t => [t.x[0], t.y[0]])")
    assert points == [[0.5, 0.5], [0.5, 0.25], [0.5, 0.25]]


def test_many_runs_have_switches_instead_of_legends_and_fold_their_parts(show, tmp_path):
    names = [f"preset-{number}" for number in range(9)]
    for name in names:
        make_run(tmp_path, name)
        make_evaluation(tmp_path, name, ("one",))
    page = show(written(tmp_path, *names))
    wait_for_plots(page)
    assert texts(page, "#figures .legendtext") == []
    groups = page.locator("[role=group][aria-label=Runs]")
    assert groups.count() == 2
    boxes = [group.locator("input").nth(1) for group in groups.all()]
    boxes[1].uncheck()
    assert not boxes[0].is_checked()
    frames = page.locator("#figures .plot")
    page.wait_for_function("plot => plot.data.length === 9", arg=frames.element_handle())
    symbols = frames.evaluate("p => p.data.map(t => [t.name, t.marker?.symbol])")
    assert symbols[1:3] == [["preset-0", "circle"], ["preset-2", "circle"]]
    assert symbols[-1] == ["preset-8", "circle-open"]
    lines = page.locator("#training .plot").nth(1).evaluate("p => p.data.map(t => t.line.dash)")
    assert lines == ["solid"] * 7 + ["dash"]
    memory = page.locator(".chart", has=page.locator("h3", has_text="Memory")).locator(".plot")
    assert memory.locator(".legendtext").count() == 0
    page.locator("#cost select").select_option("GPU, peak")
    page.wait_for_function("plot => plot.data[0].y[0] === 10000", arg=memory.element_handle())
    assert memory.evaluate("p => p.data.map(t => t.name)") == [names[0], *names[2:]]
    assert page.locator("#findings details.run[open]").count() == 0
    assert page.text_content("#findings summary").startswith("preset-0: waiting for data, ")
    assert page.text_content("#origin summary") == "preset-0: commit 01234567"
    page.locator("#origin summary").first.press("Enter")
    assert page.get_by_text("0123456789abcdef").first.is_visible()


def test_the_page_names_the_split_of_validation(show, tmp_path):
    for name in ("held_out", "test"):
        make_run(tmp_path, name, DATA={"VALIDATION": name})
        make_evaluation(tmp_path, name)
    of_test = "Validations while training are of centre crops of test frames. The figures above"
    for names, note in {
        ("test",): of_test,
        ("held_out",): "centre crops of training sequences that are held out. The figures above",
        ("test", "held_out"): "test of test frames; held_out of training sequences that are held",
    }.items():
        assert note in show(written(tmp_path, *names)).text_content("#training")


def test_a_video_plays(page):
    video = page.locator("video")
    video.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('video').readyState >= 2")
    assert video.evaluate("v => [v.videoWidth, v.videoHeight]") == [2 * WIDTH, HEIGHT]
    video.evaluate("v => v.play()")
    page.wait_for_function("() => document.querySelector('video').currentTime > 0")


def test_findings_data_and_origin_in_words(page):
    findings = page.text_content("#findings")
    assert "Worth fixing: waiting for data" in findings
    assert "To do: more workers, a longer queue, a cache that is used" in findings
    assert "Then: at most 43% more samples a second" in findings
    assert "DATALOADER.TOTAL_WORKERS: cpu*1.0" in findings
    assert findings.count("waiting for data") == 2
    data = page.text_content("#data")
    assert "4 exposures: spikes and sharp frame correlate by 0.900 (median)" in data
    assert "the sequence with the lowest is test/b. The sharp" in data
    # Centres are found at 39, 42 and 40.5 where 40 is expected.
    assert "found 0.50 spike steps after its expected place (median)" in data
    origin = page.text_content("#origin")
    assert "0123456789abcdef" in origin
    assert "MODEL.USE_SPIKE" in origin


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
    for table in page.locator("#figures table", has=page.get_by_text("gain")).all():
        gain = table.locator("th", has_text="gain").bounding_box()
        assert gain["x"] + gain["width"] <= 390
    shade = "e => getComputedStyle(e).backgroundAttachment"
    assert page.locator("#figures .scroll").first.evaluate(shade) == "local, scroll"
    assert min(b.bounding_box()["height"] for b in page.locator(".bar button").all()) >= 44


def test_a_phone_shows_the_gain_beside_long_names(show, tmp_path):
    names = ("reproduce-without-spikes", "baseline")
    for name in names:
        make_run(tmp_path, name)
        make_evaluation(tmp_path, name, ("GOPR0384_11_00", "GOPR0385_11_01"))
    page = show(written(tmp_path, *names), **PHONE)
    table = page.locator("#figures .tall table")
    for metric in ("PSNR", "LPIPS"):
        page.select_option("#figures select", metric)
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
