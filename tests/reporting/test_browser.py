"""The page in a real Chromium: mouse, finger, keyboard, narrow and dark."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.reporting.results import (
    FINDING,
    HEIGHT,
    WIDTH,
    make_alignment,
    make_evaluation,
    make_performance,
    make_run,
    picture,
)
from vrtspike.deblurring.video import video_file
from vrtspike.files import read_json, write_json
from vrtspike.reporting.page import write_report_page

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
HANDLE = ".handle"
STAGE = ".stage"

pytestmark = pytest.mark.slow


def browser_module() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("browser")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two runs: one with spikes, two scales, a video and findings; one without spikes."""
    results = tmp_path_factory.mktemp("results")
    make_run(results, "with_spikes")
    folder = make_evaluation(results, "with_spikes", ("街道_夜间", "GOPR2"), scales=(1.0, 0.5))
    make_performance(results, "with_spikes", [FINDING])
    make_run(results, "without", MODEL={"USE_SPIKE": False})
    make_evaluation(results, "without", ("街道_夜间",), gain=-1.0, spikes=False)
    make_alignment(results)
    write_video(folder / "videos/GOPR2.mp4")
    output = results / "index.html"
    write_report_page(results, ["with_spikes", "without"], results, output)
    return output.as_uri()


def write_video(path: Path) -> None:
    path.parent.mkdir()
    with video_file(path) as append:
        for seed in range(3):
            append([picture(seed), picture(seed + 5)])


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    module = browser_module()
    if module.PROGRAM is None:
        pytest.skip("needs Chromium")
    with module.chromium() as page:
        yield page


@pytest.fixture
def page(tab: Any, address: str) -> Iterator[Any]:
    tab.open(address)
    yield tab
    assert tab.messages == []


def split(page: Any) -> float:
    """Where the boundary is, by the slider and by what is seen of the left picture."""
    value = float(page.value("document.querySelector('.handle').getAttribute('aria-valuenow')"))
    box = "document.querySelector('.stage').getBoundingClientRect()"
    handle = "document.querySelector('.handle').getBoundingClientRect()"
    seen = page.value(f"100 * ({handle}.x + {handle}.width / 2 - {box}.x) / {box}.width")
    clip = page.value("document.querySelectorAll('.stage .layer')[1].style.clipPath")
    assert seen == pytest.approx(value, abs=1)
    assert 100 - float(clip.split()[1].rstrip("%")) == pytest.approx(value, abs=1)
    return value


def transforms(page: Any) -> list[str]:
    """Of all pictures of the example."""
    return page.value("[...document.querySelectorAll('.view img')].map(i => i.style.transform)")


def shown_part(page: Any) -> tuple[float, float, float]:
    """Shift to the side and down in percent, and zoom: the same of all pictures.

    Pointers stand on whole pixels, so shifts are exact to about one of 200.
    """
    (transform,) = set(transforms(page))
    x, y, zoom = (float(number) for number in re.findall(r"-?[\d.]+", transform))
    return x, y, zoom


def selected(page: Any) -> int:
    return page.value(
        "[...document.querySelectorAll('.thumb')]"
        ".findIndex(thumb => thumb.getAttribute('aria-selected') === 'true')"
    )


def column(page: Any, place: int) -> list[str]:
    """Texts of a column of the table of sequences."""
    cell = f"row => row.children[{place}].textContent"
    rows = "document.querySelectorAll('#figures .tall tbody tr')"
    return page.value(f"[...{rows}].map({cell})")


def test_it_asks_for_nothing_and_says_the_verdict(page):
    assert page.value("document.documentElement.dataset.ready") == "yes"
    assert [address for address in page.requests if not address.startswith("data:")] == [
        page.value("location.href")
    ]
    headline = page.value("document.querySelector('h1').textContent")
    assert headline.startswith("Preset with_spikes takes 6 frames")
    assert "from 18.50 dB (blurry) to 22.50 dB" in headline


def test_the_boundary_follows_the_mouse(page):
    assert split(page) == 50
    page.drag(page.place(HANDLE), page.place(STAGE, 0.2))
    assert split(page) == pytest.approx(20, abs=1)
    # A click anywhere brings it there; beyond the edge it stays at the edge.
    page.drag(page.place(STAGE, 0.7, 0.9), page.place(STAGE, 0.7, 0.9))
    assert split(page) == pytest.approx(70, abs=1)
    page.drag(page.place(HANDLE), page.place(STAGE, 1.3))
    assert split(page) == 100


def test_the_boundary_follows_the_keyboard(page):
    page.value("document.querySelector('.handle').focus()")
    for key, value in (
        ("ArrowLeft", 49),
        ("ArrowRight", 50),
        ("PageUp", 60),
        ("PageDown", 50),
        ("Home", 0),
        ("ArrowLeft", 0),
        ("End", 100),
    ):
        page.key(key)
        assert split(page) == value, key
    says = page.value("document.querySelector('.handle').getAttribute('aria-valuetext')")
    assert says == "Blurry up to 100 %, then Restored"
    role = page.value("document.querySelector('.handle').getAttribute('role')")
    assert role == "slider"
    ring = "getComputedStyle(document.querySelector('.handle'), '::after').outlineStyle"
    assert page.value(ring) == "solid"


def test_the_boundary_follows_a_finger_and_two_fingers_zoom(tab, address):
    tab.open(address, 390, 844, touch=True)
    tab.swipe(tab.place(HANDLE), tab.place(STAGE, 0.25))
    assert split(tab) == pytest.approx(25, abs=2)
    tab.pinch(tab.place(STAGE), 60, 3)
    assert shown_part(tab)[2] == pytest.approx(3, abs=0.2)
    assert tab.messages == []


def test_all_pictures_zoom_and_move_in_step(page):
    assert len(transforms(page)) == 5
    place = page.place(STAGE, 0.25, 0.5)
    page.double_click(place)
    # The point under the pointer stays: a quarter of the picture is left of it, times three.
    assert shown_part(page) == pytest.approx((-50, -100, 3), abs=1)
    assert page.value("document.querySelector('.zoom').textContent") == "300 %"
    before = split(page)
    page.drag(page.place(STAGE, 0.8, 0.5), page.place(STAGE, 0.9, 0.25))
    assert shown_part(page) == pytest.approx((-40, -125, 3), abs=2)
    assert split(page) == before
    # Beyond the edge there is nothing to be seen.
    page.drag(page.place(".panel", 0.1, 0.1), page.place(".panel", 0.9, 0.9))
    page.drag(page.place(".panel", 0.1, 0.1), page.place(".panel", 0.9, 0.9))
    assert shown_part(page) == (0, 0, 3)
    page.click("button[aria-label='Show the whole picture']")
    assert shown_part(page) == (0, 0, 1)
    page.value("document.querySelector('.handle').focus()")
    page.key("+")
    page.key("ArrowRight", shift=True)
    assert shown_part(page) == pytest.approx((-35, -25, 1.5))
    page.key("0")
    assert shown_part(page) == (0, 0, 1)


def test_thumbnails_lead_from_the_worst_to_the_best(page):
    assert page.value("document.querySelectorAll('.thumb').length") == 12
    texts = page.value("[...document.querySelectorAll('.thumb')].map(t => t.textContent)")
    assert texts[0] == "20.00 dB街道_夜间 000001"
    assert texts[6] == "20.00 dB街道_夜间_x0.5 000001"
    shown = "document.querySelector('.stage img').src"
    first = page.value(shown)
    page.click(".thumb:nth-child(3)")
    assert selected(page) == 2
    assert page.value(shown) != first
    caption = page.value("document.querySelector('.caption').textContent")
    assert caption.startswith("街道_夜间, frame 000003, best of its sequence")
    assert "PSNR18.00 → 22.00 dB (spikes alone, grey 15.00)" in caption
    page.key("ArrowDown")
    page.key("ArrowDown")
    assert selected(page) == 4
    page.key("ArrowLeft")
    assert selected(page) == 3
    page.key("End")
    page.key("ArrowDown")
    assert selected(page) == 11
    page.key("Home")
    assert selected(page) == 0
    assert page.value("document.activeElement.className") == "thumb"


def test_panels_are_switched_and_the_sides_chosen(page):
    panels = "[...document.querySelectorAll('.panels figcaption')].map(c => c.firstChild.data)"
    assert page.value(panels) == ["Sharp", "Spike image", "Error map"]
    page.click("#pictures .bar button:nth-child(2)")
    assert page.value(panels) == ["Sharp", "Error map"]
    button = "document.querySelector('#pictures .bar button:nth-child(2)')"
    assert page.value(f"{button}.getAttribute('aria-pressed')") == "false"
    page.click("#pictures .bar button:nth-child(2)")
    assert page.value(panels) == ["Sharp", "Spike image", "Error map"]
    legend = page.value("document.querySelector('.scale').textContent")
    assert legend == " 032+"
    options = "[...document.querySelector('.side.right').options].map(o => o.text)"
    assert page.value(options) == [
        "Blurry",
        "Restored",
        "Sharp",
        "Spike image",
        "Error map",
        "Restored by without",
    ]
    page.value(
        "(c => { c.value = 'sharp'; c.dispatchEvent(new Event('change')); })"
        "(document.querySelector('.side.right'))"
    )
    same = "document.querySelector('.layer img').src === document.querySelector('.panel img').src"
    assert page.value(same)


def test_another_run_shows_its_own_frames(page):
    page.value(
        "(c => { c.value = '1'; c.dispatchEvent(new Event('change')); })"
        "(document.querySelector('#pictures .bar label select'))"
    )
    assert page.value("document.querySelectorAll('.thumb').length") == 3
    panels = "[...document.querySelectorAll('.panels figcaption')].map(c => c.firstChild.data)"
    assert page.value(panels) == ["Sharp", "Error map"]


def test_tables_sort_by_mouse_and_keyboard(page):
    heads = page.value(
        "[...document.querySelectorAll('#figures .tall thead tr:last-child th')]"
        ".map(h => h.textContent)"
    )
    assert heads[:8] == [
        "preset",
        "sequence",
        "scale",
        "frames",
        "blurry",
        "spikes alone, grey",
        "restored",
        "gain",
    ]
    restored = "#figures .tall thead tr:last-child th:nth-child(7)"
    sorting = f"document.querySelector('{restored}').getAttribute('aria-sort')"
    assert page.value(sorting) is None
    page.click(f"{restored} button")
    assert page.value(sorting) == "ascending"
    assert column(page, 6) == ["21.00", "21.00", "21.00", "24.00", "24.00"]
    page.value(f"document.querySelector('{restored} button').focus()")
    page.key("Enter")
    assert page.value(sorting) == "descending"
    assert column(page, 6) == ["24.00", "24.00", "21.00", "21.00", "21.00"]
    # What there is no figure of comes last, upwards and downwards.
    spikes = "#figures .tall thead tr:last-child th:nth-child(6) button"
    for _ in range(2):
        page.click(spikes)
        assert column(page, 5)[-1] == "–"
    assert page.value(sorting) is None
    assert "−1.00" in column(page, 7)
    assert set(column(page, 11)) == {"+0.2500"}  # LPIPS went down by as much


HOSTILE = "</script><script>alert(1)</script>\"'&{{data}}"


def test_runs_of_other_frames_and_metrics_are_not_mixed_up(tab, tmp_path):
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
    for names in (("psnr", "lpips"), ("lpips", "psnr")):
        write_report_page(tmp_path, names, tmp_path, tmp_path / "index.html")
        tab.open((tmp_path / "index.html").as_uri())
        figures = tab.value("document.querySelector('#figures').textContent")
        assert "evaluated on different frames" in figures
        link = tab.value("document.querySelector('.videos a').href")
        assert unquote(urlsplit(link).path) == str(video)
        assert "lpips: 3 frames of 1 sequence in reds/test, blurry ones of blur" in figures
        options = tab.value("[...document.querySelector('.side.right').options].map(o => o.text)")
        assert not [option for option in options if option.startswith("Restored by")]
        worst = "[...document.querySelectorAll('#figures .chart tbody td:nth-child(1)')]"
        assert set(tab.value(f"{worst}.map(cell => cell.textContent)")) == {names[0]}
        better = {"psnr": "improved above the line", "lpips": "improved below the line"}
        assert better[names[0]] in figures
    # What is shown as nothing is neither better nor worse.
    (gain,) = tab.value(
        "[...document.querySelectorAll('#figures table')][0].querySelectorAll('tbody tr')"
        ".values().filter(row => row.children[0].textContent === 'lpips')"
        ".map(row => [row.children[4].textContent, row.children[4].className]).toArray()"
    )
    assert gain == ["0.0000", ""]
    assert tab.value("document.documentElement.scrollWidth") == 1280
    # A long name leaves the figures in sight.
    seen = "document.querySelector('#figures .tall td:nth-child(4)').getBoundingClientRect().right"
    assert tab.value(seen) < 1280
    tab.open((tmp_path / "index.html").as_uri(), 390, 844, touch=True)
    assert tab.value("document.documentElement.scrollWidth") == 390
    assert tab.messages == []


def test_worst_frames_are_told_where_there_are_any(tab, tmp_path):
    make_run(tmp_path, "a")
    make_evaluation(tmp_path, "a")
    path = tmp_path / "evaluate/a/summary.json"
    headings = "[...document.querySelectorAll('#figures h3')].map(h => h.textContent)"
    drawn = "Every test frame, improved above the line"
    for worst, shown in (([], [drawn]), (read_json(path)["worst"], [drawn, "Worst frames"])):
        write_json(path, read_json(path) | {"worst": worst})
        write_report_page(tmp_path, ["a"], tmp_path, tmp_path / "index.html")
        tab.open((tmp_path / "index.html").as_uri())
        assert tab.value(headings) == shown
    assert tab.messages == []


def test_frames_that_equal_the_sharp_ones_have_no_figure_and_no_other_ones(tab, tmp_path):
    """A dash for the infinite PSNR of the restored frame, not the blurry one's PSNR alone."""
    make_run(tmp_path, "a")
    reason = "some frames equal the sharp ones: the mean is not finite"
    figures = {"psnr": {"blurry": 18.0, "restored": None, "gain": None, "reason": reason}}
    folder = make_evaluation(tmp_path, "a", ("one",), metrics=figures)
    index = read_json(folder / "examples/examples.json")
    index["examples"] = index["examples"][:1]
    index["examples"][0]["metrics"] |= {"psnr": None, "lpips": None, "lpips_blur": None}
    write_json(folder / "examples/examples.json", index)
    write_report_page(tmp_path, ["a"], tmp_path, tmp_path / "index.html")
    tab.open((tmp_path / "index.html").as_uri())
    assert tab.value("document.querySelector('.thumb b').textContent") == "–"
    caption = tab.value("document.querySelector('.caption').textContent")
    assert caption.endswith("PSNR16.00 → – dB (spikes alone, grey 15.00)")
    told = tab.value("document.querySelector('#figures details').textContent")
    assert f"No PSNR of a: {reason}." in told
    cells = tab.value("[...document.querySelectorAll('#figures tbody td')].map(c => c.textContent)")
    assert cells[:5] == ["a", "18.00", "15.00", "–", "–"]
    assert tab.messages == []


def drawn(page: Any, selector: str) -> None:
    page.place(selector)
    page.wait(f"document.querySelector('{selector} .plot').dataset.drawn === 'yes'")


def test_curves_obey_their_switches(page):
    drawn(page, "#training .charts")
    plot = "document.querySelector('#training .plot')"
    traces = f"{plot}.data.map(t => t.name)"
    assert page.value(traces) == ["with_spikes"] * 2 + ["without"] * 2
    axis = f"{plot}.layout.yaxis.type"
    assert page.value(axis) == "log"
    page.click("#training [role=group] label:nth-child(1) input")
    page.wait(f"{plot}.data.length === 2")
    assert page.value(traces) == ["without"] * 2
    page.click("#training .bar > label:nth-child(3) input")
    page.wait(f"{axis} === 'linear'")
    smoothing = "document.querySelector('#training input[type=range]')"
    page.value(f"(r => {{ r.value = 0; r.dispatchEvent(new Event('input')); }})({smoothing})")
    page.wait(f"{plot}.data.length === 1")
    assert page.value(f"{plot}.data[0].y[1]") == 0.5  # the second loss of 1, 1/2, 1/3, ...
    page.value(f"(r => {{ r.value = 0.2; r.dispatchEvent(new Event('input')); }})({smoothing})")
    page.wait(f"{plot}.data.length === 2")
    # (0.2 x 0.8 x 1 + 0.8 x 1/2) / 0.96
    assert page.value(f"{plot}.data[1].y[1]") == pytest.approx(0.56 / 0.96)
    page.value(
        "(c => { c.value = 'learning rate'; c.dispatchEvent(new Event('change')); })"
        "(document.querySelector('#training .charts select'))"
    )
    page.wait(f"{plot}.data[0].y[0] === 0.001")


def test_every_chart_is_drawn_and_says_what_is_under_the_pointer(page):
    count = page.value("document.querySelectorAll('.plot').length")
    assert count == 9
    # Without a look at them, too: a page that is printed shows them all.
    page.wait(
        "[...document.querySelectorAll('.plot')].every(p => p.dataset.drawn || p.textContent)"
    )
    validation = "#training .charts > div:nth-child(2)"
    drawn(page, validation)
    plot = f"document.querySelector('{validation} .plot')"
    assert page.value(f"{plot}.layout.yaxis.type") == "linear"
    x, y = page.place(f"{validation} .points path", 0.5, 0.5)
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    page.wait(f"document.querySelector('{validation} .hoverlayer text') !== null")
    hover = page.value(f"document.querySelector('{validation} .hoverlayer').textContent")
    assert "28" in hover
    assert "with" in hover


def test_charts_and_costs_show_the_figures_of_the_results(page):
    cells = "[...document.querySelectorAll('#cost tbody td')].map(cell => cell.textContent)"
    assert page.value(cells) == ["with_spikes", "1,000", "2", "30.0", "1000", "10000", "0.5"]
    page.wait(
        "[...document.querySelectorAll('.plot')].every(p => p.dataset.drawn || p.textContent)"
    )

    def traces(title: str, what: str) -> list[Any]:
        charts = "[...document.querySelectorAll('.chart')]"
        plot = f"{charts}.find(c => c.querySelector('h3').textContent.startsWith('{title}'))"
        return page.value(f"{plot}.querySelector('.plot').data.map(t => {what})")

    line, first, second = traces("Every test frame", "[t.x, t.y]")
    assert (first[0][:2], first[1][:2]) == ([16, 17], [20, 21])
    assert second == [[21, 22, 23], [20, 21, 22]]  # worse than blurry
    assert line == [[16, 23], [16, 23]]
    shares = dict(traces("Where a step goes", "[t.name, t.x[0]]"))
    assert shares == pytest.approx({"data": 30, "forward": 20, "backward": 40, "other": 10})
    ((names, medians, more),) = traces("Time per section", "[t.y, t.x, t.error_x.array]")
    assert (names, medians, more) == (["step", "step/forward"], [990, 190], [110, 30])
    assert traces("Samples per second", "[t.x, t.y]") == [[[2, 4], [2, 2.5]]]
    memory = dict(traces("Memory", "[t.name, t.y]"))
    assert memory["with_spikes, GPU, peak"] == [9000, 10_000]
    assert traces("Correlation", "t.x") == [[0.95, 0.8]]
    offsets = traces("Found less expected", "[t.x, t.error_x.array, t.error_x.arrayminus]")
    assert offsets == [[[0.5, 0.5], [0, 1.5], [0, 1.5]]]


def test_a_video_plays(page):
    page.place("video")
    page.wait("document.querySelector('video').readyState >= 2")
    size = (
        "[document.querySelector('video').videoWidth, document.querySelector('video').videoHeight]"
    )
    assert page.value(size) == [2 * WIDTH, HEIGHT]
    page.value("document.querySelector('video').play()")
    page.wait("document.querySelector('video').currentTime > 0")


def test_findings_data_and_origin_in_words(page):
    findings = page.value("document.querySelector('#findings').textContent")
    assert "Worth mending: waits for data" in findings
    assert "To do: more loading processes. Then: shorter steps." in findings
    assert "DATALOADER.TRAIN_WORKERS: 4" in findings
    assert "not analysed" in findings
    data = page.value("document.querySelector('#data').textContent")
    assert "4 exposures: spikes and sharp frame correlate by 0.900" in data
    # Centres are found at 39, 42 and 40.5 where 40 is expected.
    assert "found 0.50 spike steps after its expected place (median)" in data
    origin = page.value("document.querySelector('#origin').textContent")
    assert "0123456789abcdef" in origin
    assert "MODEL.USE_SPIKE" in origin


def test_a_narrow_screen_needs_no_scrolling_to_the_side(tab, address):
    tab.open(address, 390, 844, touch=True)
    tab.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert tab.value("document.documentElement.scrollWidth") == 390
    assert tab.value("document.querySelector('.stage').clientWidth") > 340
    sizes = tab.value(
        "[...document.querySelectorAll('.bar button')].map(b => b.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 44
    assert tab.messages == []


def test_dark_is_dark_and_curves_follow(tab, address):
    ink = {}
    for dark in (False, True):
        tab.open(address, dark=dark)
        drawn(tab, "#training .charts")
        paper = tab.value("getComputedStyle(document.body).backgroundColor")
        ink[dark] = tab.value("document.querySelector('#training .plot').layout.font.color")
        assert paper == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")
    assert ink[False] != ink[True]
    # The scheme of the system changes while the page is open.
    tab.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}]
    )
    tab.wait(f"document.querySelector('#training .plot').layout.font.color === '{ink[False]}'")
    assert tab.messages == []


def test_on_paper_there_are_no_switches(tab, address):
    tab.open(address)
    tab.call("Emulation.setEmulatedMedia", media="print")
    shown = "s => getComputedStyle(document.querySelector(s)).display"
    for selector in ("nav", ".bar", ".thumbs"):
        assert tab.value(f"({shown})('{selector}')") == "none"
    assert tab.value(f"({shown})('.stage')") != "none"
    tab.call("Emulation.setEmulatedMedia", media="")
