"""Charts of the report page in a real Chromium: values, switches, saved files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.reporting.browser import place
from tests.reporting.results import make_evaluation, make_run
from tests.reporting.shown_page import NEEDS_CHROMIUM, texts, wait_for_plots, written
from vrtspike.reporting.offline_page import asset
from vrtspike.reporting.page import SCRIPTS

pytestmark = NEEDS_CHROMIUM


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


def test_charts_come_back_after_all_runs_were_switched_off(page):
    wait_for_plots(page)
    drawn = page.locator(".plot[data-drawn]").count()
    boxes = page.locator("#training [role=group] input").all()
    for box in boxes:
        box.uncheck()
    # The two on the data show no runs.
    page.wait_for_function("() => document.querySelectorAll('.plot[data-drawn]').length === 2")
    assert texts(page, ".plot .absent") == ["No run is switched on."] * (drawn - 2)
    assert page.locator(".plot:has(.absent) .plot-container").count() == 0
    boxes[1].check()
    page.wait_for_function(
        f"() => document.querySelectorAll('.plot[data-drawn]').length === {drawn}"
    )
    assert page.locator(".plot .absent").count() == 0
    lines = page.locator("#training .plot").first.locator(".scatterlayer .trace")
    assert lines.count() == 2
    assert lines.first.bounding_box()["width"] > 100


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


def test_charts_and_costs_show_the_metrics_of_the_results(page):
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


def test_the_plot_of_frames_has_a_legend_and_follows_the_metric(page):
    wait_for_plots(page)
    chart = page.locator("#metrics .chart", has=page.locator(".plot"))
    assert texts(page, "#metrics .chart .legendtext") == ["no change", "with_spikes", "without"]
    page.select_option("#metrics select", "LPIPS")
    assert chart.locator("h3").text_content().startswith("LPIPS of every test frame, improved bel")
    page.wait_for_function(
        "plot => plot.layout.yaxis.title.text.startsWith('LPIPS')",
        arg=chart.locator(".plot").element_handle(),
    )
    points = chart.locator(".plot").evaluate("plot => plot.data.map(t => [t.x[0], t.y[0]])")
    assert points == [[0.5, 0.5], [0.5, 0.25], [0.5, 0.25]]


def test_the_frames_of_any_number_of_runs_have_a_line(page):
    """A call takes no more arguments than its stack holds; so many points are not drawn here."""
    scripts = "\n".join(asset(name) for name in SCRIPTS if name != "page.js")
    ends = page.evaluate(
        f"""() => {{
            {scripts}
            const {{ evaluation }} = report.runs[0];
            evaluation.frame_rows = Array(200_000).fill(evaluation.frame_rows[0]);
            return frameChart(() => evaluation.metrics[0])().traces[0].x;
        }}"""
    )
    # The first frame of one run, and the largest value of the other.
    assert ends == [16, 23]


def test_many_runs_have_switches_instead_of_legends_and_fold_their_parts(show, tmp_path):
    names = [f"preset-{number}" for number in range(9)]
    for name in names:
        make_run(tmp_path, name)
        make_evaluation(tmp_path, name, ("one",))
    page = show(written(tmp_path, *names))
    wait_for_plots(page)
    assert texts(page, "#metrics .legendtext") == []
    groups = page.locator("[role=group][aria-label=Runs]")
    assert groups.count() == 2
    boxes = [group.locator("input").nth(1) for group in groups.all()]
    boxes[1].uncheck()
    assert not boxes[0].is_checked()
    frames = page.locator("#metrics .plot")
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
