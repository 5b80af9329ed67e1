"""Properties of every figure."""

from __future__ import annotations

import re

import cv2
import matplotlib as mpl
import pytest

from vrtspike.plotting.drawing import drawn_figure, show_text


def draw_line(path, *size, **options):
    with drawn_figure(path, *size, **options) as figure:
        figure.subplots().plot([0, 1], [0, 1])


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_equal_figures_give_equal_bytes(tmp_path, kind, caplog):
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for path in paths:
        draw_line(path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert caplog.records == []  # only fonts that are here are asked for


def test_pixels_are_inches_times_their_number_per_inch(tmp_path):
    draw_line(tmp_path / "a.png", (3.0, 2.0))
    assert cv2.imread(str(tmp_path / "a.png")).shape == (200, 300, 3)


@pytest.mark.parametrize("grid", [True, False])
def test_grid_lines_are_optional(tmp_path, grid):
    draw_line(tmp_path / "a.svg", grid=grid)
    assert bool(re.search("e2e8f0", (tmp_path / "a.svg").read_text())) == grid


def test_the_style_of_pictures_stays_with_them(tmp_path):
    before = dict(mpl.rcParams)
    draw_line(tmp_path / "a.svg")
    assert dict(mpl.rcParams) == before


def test_a_character_that_no_font_has_is_no_warning(tmp_path, recwarn):
    with drawn_figure(tmp_path / "a.png") as figure:
        figure.suptitle("\ue000")
    assert not recwarn.list


def test_an_empty_plot_says_why_in_its_middle(tmp_path):
    with drawn_figure(tmp_path / "a.png") as figure:
        show_text(figure.subplots(), "nothing was measured")
    ((text,),) = (axes.texts for axes in figure.axes)
    assert text.get_text() == "nothing was measured"
    box, whole = text.get_window_extent(), figure.bbox
    for low, high, size in ((box.x0, box.x1, whole.width), (box.y0, box.y1, whole.height)):
        assert (low + high) / 2 == pytest.approx(size / 2, rel=0.05)
