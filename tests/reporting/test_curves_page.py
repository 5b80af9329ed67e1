"""The page of the curves of a sweep or of seeds."""

from __future__ import annotations

import json
import re

import pytest

from tests.reporting.browser import PROGRAM, chromium, opened
from tests.reporting.results import make_run
from vrtspike.reporting.curves_page import write_curves_page
from vrtspike.system.errors import RunError

VALUES = {"rates-1f": {"TRAIN.OPTIM.LR": 0.01}, "rates-2e": {"TRAIN.OPTIM.LR": 0.1}}
NAMES = ("rates-1f", "rates-1f-seed-2", "rates-2e")
TITLE = "Curves of sweep <rates>"
LINES = ["rates-1f: LR 0.01", "rates-1f-seed-2: LR 0.01", "rates-2e: LR 0.1"]


@pytest.fixture
def page(tmp_path):
    folders = [make_run(tmp_path, name) for name in NAMES]
    write_curves_page(folders, tmp_path / "sweep", TITLE, VALUES)
    return tmp_path / "sweep/curves.html"


def test_each_training_has_its_curves_and_is_named_by_its_values(page):
    text = page.read_text(encoding="utf-8")
    assert "<h1>Curves of sweep &lt;rates&gt;</h1>" in text
    assert "<li>3 trainings</li>" in text
    (stored,) = re.findall(r'id="report">(.*?)</script>', text)
    runs = json.loads(stored)["runs"]
    assert [run["name"] for run in runs] == LINES
    for run in runs:
        assert run["curves"]["validation"]["PSNR, dB"]["values"] == [28.0, 30.0]
        assert run["curves"]["train"]["loss"]["steps"] == list(range(1, 41))


def test_seeds_keep_their_names_and_a_missing_run_is_named(tmp_path):
    folder = make_run(tmp_path, "a")
    write_curves_page([folder], tmp_path, "Curves of the seeds of a")
    assert '"name":"a"' in (tmp_path / "curves.html").read_text(encoding="utf-8")
    with pytest.raises(RunError, match="none/run"):
        write_curves_page([folder.with_name("none")], tmp_path, "")


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="needs Chromium")
def test_lines_are_drawn_and_a_phone_shows_them_whole(page):
    messages = []
    with chromium() as browser:
        window = opened(browser, viewport={"width": 390, "height": 844})
        window.on("console", lambda message: messages.append(message.text))
        window.on("pageerror", lambda error: messages.append(str(error)))
        window.goto(page.as_uri())
        window.wait_for_function("() => document.querySelectorAll('[data-drawn]').length === 2")
        validation = window.locator(".plot").nth(1)
        assert validation.evaluate("p => p.data.map(t => [t.name, t.y])") == [
            [line, [28, 30]] for line in LINES
        ]
        assert window.evaluate("document.documentElement.scrollWidth") == 390
        note = window.text_content("#training .note")
        assert note.strip().startswith("Validations while training are of centre crops")
        assert "metrics above" not in note
    assert messages == []
