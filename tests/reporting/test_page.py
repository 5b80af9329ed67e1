from __future__ import annotations

import base64
import gzip
import html
import json
import re
from html.parser import HTMLParser

import pytest
from plotly.offline import get_plotlyjs

from tests.reporting.results import (
    FINDING,
    make_alignment,
    make_evaluation,
    make_performance,
    make_run,
)
from vrtspike.errors import RunError
from vrtspike.reporting.page import embedded_videos, script_json, write_report_page
from vrtspike.reporting.runs import read_run

HOSTILE = "</script><img src=x onerror=alert(1)>{{data}}&amp;"


class Elements(HTMLParser):
    """Elements with their attributes, and what stands in scripts by name."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.stored: dict[str, str] = {}
        self.headline = ""
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._within = dict(attrs).get("id", "") if tag == "script" else tag

    def handle_data(self, data):
        if self._within in ("h1", "strong"):
            self.headline += data
        elif self.found and self.found[-1][0] == "script":
            self.stored[self._within] = self.stored.get(self._within, "") + data


def write(results, *names, page_bytes=19_000_000):
    output = results / "index.html"
    write_report_page(results, names, results / "presets", output, page_bytes)
    return output.read_text(encoding="utf-8")


def data_of(text: str):
    return json.loads(Elements(text).stored["report"])


@pytest.fixture
def results(tmp_path):
    make_run(tmp_path, "a")
    make_evaluation(tmp_path, "a")
    make_performance(tmp_path, "a", [FINDING])
    make_alignment(tmp_path)
    return tmp_path


def test_the_page_holds_all_of_a_run(results):
    text = write(results, "a")
    page = Elements(text)
    assert page.headline.startswith("Preset a takes 6 frames of data set gopro from 18.50 dB")
    report = json.loads(page.stored["report"])
    (run,) = report["runs"]
    assert run["evaluation"]["metrics"][0]["restored"] == 22.5
    assert run["performance"]["findings"][0]["symptom"] == "waits for data"
    assert run["curves"]["validation"]["PSNR, dB"] == {
        "steps": [20, 40],
        "values": [28.0, 30.0],
        "width": 1,
    }
    assert dict(run["origin"]["facts"])["fingerprint"] == "print of a"
    assert report["alignments"][0]["lowest"] == "test/b"
    examples = run["evaluation"]["examples"]
    assert [example["frame"] for example in examples] == ["000001", "000002", "000003"] * 2
    for example in examples:
        for what in example["pictures"]:
            picture = base64.b64decode(page.stored[f"{example['id']}-{what}"])
            assert picture[8:12] == b"WEBP"
    assert "files" not in examples[0]


def test_the_page_asks_for_nothing_from_outside(results):
    text = write(results, "a")
    for tag, attributes in Elements(text).found:
        for name in ("src", "href", "action"):
            value = attributes.get(name) or ""
            assert value.startswith(("data:", "#")) or not value, (tag, value)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "@import" not in text
    assert "innerHTML" not in text
    assert "insertAdjacentHTML" not in text


def test_the_library_is_that_of_plotly(results):
    packed = Elements(write(results, "a")).stored["plotly"]
    contents = base64.b64decode(packed)
    assert gzip.decompress(contents).decode() == get_plotlyjs()
    assert contents[4:8] == bytes(4)  # no time: equal results give equal pages


def test_equal_results_give_equal_pages(results):
    assert write(results, "a") == write(results, "a")


def test_names_are_texts_whatever_they_hold(tmp_path):
    make_run(tmp_path, "a", HOSTILE.replace("/", "|"))
    make_evaluation(tmp_path, "a", ("街道_夜间",), data=HOSTILE)
    text = write(tmp_path, "a")
    assert "<img" not in text.partition("<script>")[0]
    assert html.escape(HOSTILE) in text
    page = Elements(text)
    assert HOSTILE in page.headline
    (run,) = json.loads(page.stored["report"])["runs"]
    assert run["evaluation"]["dataset"] == HOSTILE
    assert run["evaluation"]["examples"][0]["sequence"] == "街道_夜间"
    assert "街道_夜间" in text


def test_json_in_a_script_cannot_end_it():
    assert script_json(["<!--<script>", "\u2028"]) == '["\\u003c!--\\u003cscript>","\\u2028"]'
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


def test_a_run_that_was_neither_evaluated_nor_analysed(tmp_path):
    make_run(tmp_path, "a", MODEL={"USE_SPIKE": False})
    report = data_of(write(tmp_path, "a"))
    (run,) = report["runs"]
    assert run["evaluation"] == {"reason": "not evaluated"}
    assert run["performance"] == {"reason": "not analysed"}
    assert report["alignments"] == []


def test_each_run_has_its_own_pictures(results):
    make_run(results, "b")
    make_evaluation(results, "b", ("GOPR9",), spikes=False)
    page = Elements(write(results, "a", "b"))
    first, second = json.loads(page.stored["report"])["runs"]
    assert [e["id"] for e in first["evaluation"]["examples"]] == [f"e{n}" for n in range(6)]
    assert [e["id"] for e in second["evaluation"]["examples"]] == ["e6", "e7", "e8"]
    assert "spikes" not in second["evaluation"]["examples"][0]["pictures"]
    assert "e6-restored" in page.stored


def test_twenty_sequences_stay_below_the_limit(tmp_path):
    """A 256th of the pixels of 720p; small files take more for a pixel."""
    make_run(tmp_path, "a")
    names = [f"GOPR{number:04d}" for number in range(20)]
    make_evaluation(tmp_path, "a", names, size=(45, 80))
    bare = len(write(tmp_path, "a", page_bytes=0).encode())
    room = 420_000
    text = write(tmp_path, "a", page_bytes=bare + room)
    assert bare + room / 2 < len(text.encode()) <= bare + room
    report = data_of(text)
    assert len(report["runs"][0]["evaluation"]["examples"]) == 60
    assert report["pictures"]["left_out"] == 0
    assert re.fullmatch(r"WebP, quality \d+, .*", report["pictures"]["form"])


def test_examples_that_do_not_fit_are_counted(results):
    text = write(results, "a", page_bytes=0)
    report = data_of(text)
    assert report["runs"][0]["evaluation"]["examples"] == []
    assert report["pictures"]["left_out"] == 6


def test_small_videos_are_put_in_and_large_ones_linked(results, monkeypatch):
    monkeypatch.setattr("vrtspike.reporting.page.VIDEO_BYTES", 50)
    monkeypatch.setattr("vrtspike.reporting.page.ALL_VIDEO_BYTES", 60)
    folder = results / "evaluate/a/videos"
    folder.mkdir()
    for name, size in (
        ("large", 51),
        ("first", 20),
        ("second", 30),
        ("too many", 40),
    ):
        (folder / f"{name}.mp4").write_bytes(name[:1].encode() * size)
    page = Elements(write(results, "a"))
    (run,) = json.loads(page.stored["report"])["runs"]
    videos = {video["label"]: video for video in run["evaluation"]["videos"]}
    assert [name for name, video in videos.items() if video["id"]] == ["first", "second"]
    assert base64.b64decode(page.stored[videos["second"]["id"]]) == b"s" * 30
    assert videos["large"]["link"] == "evaluate/a/videos/large.mp4"
    monkeypatch.setattr("vrtspike.reporting.page.ALL_VIDEO_BYTES", 1000)
    found = embedded_videos([read_run(results, "a", results)])
    assert [path.stem for path in found] == ["first", "second", "too many"]


def test_a_run_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RunError, match=r"train/none/run\.json: no such file"):
        write(tmp_path, "none")
    (make_run(tmp_path, "a") / "metrics.csv").unlink()
    with pytest.raises(RunError, match=r"metrics\.csv: no such file"):
        write(tmp_path, "a")
