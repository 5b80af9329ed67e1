"""What every picture has in common."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import cv2
import matplotlib as mpl
import pytest

from vrtspike.drawing import draw, say


def line(figure):
    figure.subplots().plot([0, 1], [0, 1])


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_equal_figures_give_equal_bytes(tmp_path, kind):
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for path in paths:
        draw(path, line)
    first, second = (path.read_bytes() for path in paths)
    assert first == second


def test_pixels_are_inches_times_their_number_per_inch(tmp_path):
    draw(tmp_path / "a.png", line, (3.0, 2.0), dpi=50)
    assert cv2.imread(str(tmp_path / "a.png")).shape == (100, 150, 3)


@pytest.mark.parametrize("grid", [True, False])
def test_lines_of_a_grid_are_there_where_they_are_asked_for(tmp_path, grid):
    draw(tmp_path / "a.svg", line, grid=grid)
    assert bool(re.search("e2e8f0", (tmp_path / "a.svg").read_text())) == grid


def test_the_style_of_pictures_stays_with_them(tmp_path):
    before = dict(mpl.rcParams)
    draw(tmp_path / "a.svg", line)
    assert dict(mpl.rcParams) == before


def test_an_empty_plot_says_why(tmp_path):
    draw(tmp_path / "a.svg", lambda figure: say(figure.subplots(), "nothing was measured"))
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")] == [
        "nothing was measured"
    ]
