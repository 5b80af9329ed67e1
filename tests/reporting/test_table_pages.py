"""Pages of tables in a real Chromium, on a screen of 1280 pixels and on a phone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page

from tests.deblurring.leaderboard_runs import publish
from tests.reporting.browser import PROGRAM, opened
from tests.reporting.results import make_evaluation, make_run
from vrtspike.analysis.comparisons.compare import find_candidates, write_comparison
from vrtspike.deblurring.leaderboard import write_leaderboard
from vrtspike.plotting.pages import Table, write_tables

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium"),
]

LONG = (
    "not a test: 2 of 3 test sequences hold frames that were trained on (test/GOPR0384_11_00 those "
    "of train/GOPR0384_11_00_of_another_camera_with_a_long_name; DATA.TEST_ON_TRAINING_FRAMES)"
)


def show(browser: Browser, path: Path, width: int) -> Page:
    page = opened(browser, viewport={"width": width, "height": 844})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    return page


def right_edge(page: Page, text: str) -> float:
    """Of the first header with a text, in pixels."""
    box = page.locator("th", has_text=text).first.bounding_box()
    assert box is not None
    return box["x"] + box["width"]


def clipped(page: Page) -> list[int]:
    """Pixels of each table that are seen only after scrolling."""
    hidden = "all => all.map(e => e.scrollWidth - e.clientWidth)"
    return [pixels for pixels in page.locator(".wide").evaluate_all(hidden) if pixels > 0]


def test_the_leaderboard_is_seen_whole_and_its_values_on_a_phone(browser, tmp_path):
    folders = [
        publish(tmp_path, "reproduce-without-spikes", True),
        publish(tmp_path, "low_memory", True, warnings=["of other data than it was trained on"]),
        publish(tmp_path, "leaked", True, warnings=[LONG]),
    ]
    write_leaderboard(folders, tmp_path / "board")
    page = show(browser, tmp_path / "board/leaderboard.html", 1280)
    assert clipped(page) == []
    assert LONG in page.text_content("body")
    page.close()
    page = show(browser, tmp_path / "board/leaderboard.html", 390)
    assert right_edge(page, "PSNR") <= 390
    page.close()


def test_an_ablation_shows_its_value_on_a_phone(browser, tmp_path):
    kinds = [f"{name} {kind}" for name in ("psnr", "lpips") for kind in ("blurry", "gain")]
    models = {
        "preset": ["reproduce"] * 3,
        "model": ["with spikes", "without spikes", "shuffled spikes"],
        "psnr restored": [33.25, 31.5, 32.0],
        "psnr difference": [0.0, -1.75, -1.25],
    }
    table = pd.DataFrame({**models, **dict.fromkeys(kinds, 0.5), "note": [LONG, "", ""]})
    write_tables(tmp_path, "Ablation", "", [Table(table)])
    page = show(browser, tmp_path / "table.html", 390)
    assert right_edge(page, "psnr difference") <= 390
    assert page.locator("td", has_text="shuffled spikes").bounding_box()["height"] < 60
    assert f"reproduce: {LONG}." in page.text_content("body")
    page.close()
    page = show(browser, tmp_path / "table.html", 1280)
    assert clipped(page) == []
    page.close()
    assert pd.read_csv(tmp_path / "table.csv")["note"][0] == LONG


def test_a_note_makes_no_wide_column_in_a_comparison(browser, tmp_path):
    folders = [make_run(tmp_path, name) for name in ("fair", "leaked")]
    make_evaluation(tmp_path, "fair")
    make_evaluation(tmp_path, "leaked", warnings=[LONG])
    write_comparison(find_candidates(folders), tmp_path / "compare")
    page = show(browser, tmp_path / "compare/table.html", 1280)
    assert clipped(page) == []
    assert page.locator("th", has_text="note").count() == 0
    assert LONG in page.text_content("body")
    assert page.locator("h2").all_text_contents()[1] == "Not counted"
    name = page.locator("td", has_text="leaked").first.bounding_box()
    assert name is not None
    assert name["height"] < 40  # in one line
    page.close()
    page = show(browser, tmp_path / "compare/table.html", 390)
    assert right_edge(page, "psnr restored") <= 390
    page.close()


def test_a_comparison_of_many_presets_is_seen_whole(browser, tmp_path):
    names = ["baseline", "compact", "fast", "low_memory", "reproduce-without-spikes", "opt"]
    folders = []
    for number, name in enumerate(names):
        data = {"ROOT": f"/a/long/path/of/the/data/of/{name}/GOPRO_Large_spike_sequences"}
        rate = {"OPTIM": {"LR": 1e-4 * (number + 1)}}
        folders.append(make_run(tmp_path, name, DATA=data, TRAIN=rate))
        make_evaluation(tmp_path, name)
    write_comparison(find_candidates(folders), tmp_path / "compare")
    page = show(browser, tmp_path / "compare/table.html", 1280)
    assert clipped(page) == []
    heads = page.locator("th").all_text_contents()
    assert {"psnr standard error", "lpips gain", "GPU peak MB"} <= {*heads}
    assert page.locator("td", has_text="DATA.ROOT").count() == 1
    page.close()
    page = show(browser, tmp_path / "compare/table.html", 390)
    assert right_edge(page, "psnr restored") <= 390
    page.close()


def test_the_best_values_of_a_leaderboard_are_bold(browser, tmp_path):
    metrics = {"psnr": {"restored": 34.0}, "ssim": {"restored": 0.9}}
    folders = [publish(tmp_path, "a", True, metrics=metrics), publish(tmp_path, "b", True)]
    write_leaderboard(folders, tmp_path / "board")
    page = show(browser, tmp_path / "board/leaderboard.html", 1280)
    # Published rows of other protocols have tables of their own.
    table = page.locator("table", has_text="34.00")
    assert table.locator("b").all_text_contents() == ["34.00", "0.9500"]
    assert table.locator("u").all_text_contents() == ["0.9000", "33.12"]
    page.close()
