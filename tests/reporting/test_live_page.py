"""The page of a running training, without a browser."""

from __future__ import annotations

import base64
import json
import os
import re

import cv2
import numpy as np

from tests.reporting.live_runs import make_live_run
from tests.reporting.results import HEIGHT, WIDTH, picture, write_picture
from vrtspike.io.files import write_json
from vrtspike.reporting.live_page import live_contents, live_json, live_page
from vrtspike.reporting.live_state import LiveRun


def decoded(text: str) -> np.ndarray:
    """The picture of a page, uint8 (H, W, 3) RGB."""
    contents = np.frombuffer(base64.b64decode(text), np.uint8)
    return cv2.imdecode(contents, cv2.IMREAD_COLOR)[..., ::-1]


def test_the_page_contains_the_state_and_can_be_parsed(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    page = live_page(run.read(now=25.0))
    match = re.search(r'id="report">(.*?)</script>', page)
    (state,) = json.loads(match[1])["runs"]
    assert state == json.loads(live_json(run.read(now=25.0)))
    assert state["share"] == 0.1
    assert state["facts"]["time left"] == "1:30"
    assert state["curves"]["train"]["loss"]["steps"] == list(range(1, 11))
    # Nothing is loaded from elsewhere.
    assert re.findall(r"(?:src|href)=\"(?!data:)", page) == []


def test_names_cannot_leave_the_script(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    settings = json.loads((run.folder / "settings.json").read_text())
    write_json(run.folder / "settings.json", settings | {"name": "</script><b>"})
    page = live_page(LiveRun(run.folder).read())
    assert "</script><b>" not in page
    assert "<title>&lt;/script&gt;&lt;b&gt;</title>" in page


def test_a_picture_is_encoded_anew_when_it_was_written_anew(tmp_path):
    run = LiveRun(make_live_run(tmp_path / "run"))
    path = run.folder / "pictures/step_00000010_restored.png"
    pictures = []
    for seed in (1, 2):
        write_picture(path, picture(seed))
        # Two files may be written within a tick of the file system's clock.
        os.utime(path, (seed, seed))
        contents = live_contents(run.read())["pictures"]
        assert contents["step"] == 10
        pictures.append(decoded(contents["files"]["restored"]))
    for seed, found_picture in enumerate(pictures, start=1):
        assert found_picture.shape == (HEIGHT, WIDTH, 3)
        assert np.abs(found_picture.astype(float) - picture(seed)).mean() < 12
