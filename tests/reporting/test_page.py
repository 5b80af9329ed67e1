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
from vrtspike.io.files import read_json, write_json
from vrtspike.reporting.page import script_json, verdict, write_report_page
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


def test_pictures_are_made_smaller_until_the_page_is_below_its_limit(tmp_path):
    make_run(tmp_path, "a")
    make_evaluation(tmp_path, "a", [f"GOPR{number}" for number in range(3)], size=(45, 80))
    whole = len(write(tmp_path, "a").encode())
    text = write(tmp_path, "a", page_bytes=whole - 1)
    assert len(text.encode()) < whole
    report = data_of(text)
    assert len(report["runs"][0]["evaluation"]["examples"]) == 9
    assert report["pictures"]["left_out"] == 0
    assert re.fullmatch(r"WebP of quality \d+, .*", report["pictures"]["form"])


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
    for name, size in (("a large", 51), ("first", 20), ("second", 30), ("too many", 40)):
        (folder / f"{name}.mp4").write_bytes(name[:1].encode() * size)
    page = Elements(write(results, "a"))
    (run,) = json.loads(page.stored["report"])["runs"]
    videos = {video["label"]: video for video in run["evaluation"]["videos"]}
    assert [name for name, video in videos.items() if video["id"]] == ["first", "second"]
    assert base64.b64decode(page.stored[videos["second"]["id"]]) == b"s" * 30
    assert videos["a large"]["link"] == "evaluate/a/videos/a large.mp4"


def test_a_run_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RunError, match=r"train/none/run\.json: no such file"):
        write(tmp_path, "none")
    (make_run(tmp_path, "a") / "metrics.csv").unlink()
    with pytest.raises(RunError, match=r"metrics\.csv: no such file"):
        write(tmp_path, "a")


def run(results, name="a", evaluated=True, settings=None, **evaluation):
    make_run(results, name, **(settings or {}))
    if evaluated:
        make_evaluation(results, name, **evaluation)
    return read_run(results, name, results)


def test_one_sentence_says_what_came_out(tmp_path):
    said = verdict([run(tmp_path)])
    assert said.text == (
        "Preset a takes 6 frames of data set gopro from 18.50 dB (blurry) to 22.50 dB (restored): "
        "a gain of 4.00 dB, at commit 01234567."
    )
    assert said.sentence.split("**")[1::2] == [
        "18.50 dB",
        "22.50 dB",
        "4.00 dB",
    ]
    assert said.facts == (
        "PSNR, mean over 2 sequences of split test",
        "spikes alone 15.00 dB, in grey",
        "LPIPS 0.5000 → 0.2500",
        "trained: 40 steps, 40 s, begun 1970-01-01 00:00 UTC, 1 x H200, 140 GiB of GPU memory, "
        "8 CPUs, host node7",
    )
    assert said.about.startswith("A spike camera takes no frames")


@pytest.mark.parametrize(
    ("restored", "words"),
    [(28.0, "a loss of 2.00 dB"), (29.999, "to 30.00 dB (restored): no change, at")],
)
def test_a_loss_is_called_one_and_what_is_not_seen_neither(tmp_path, restored, words):
    figures = {"psnr": {"blurry": 30.0, "restored": restored, "gain": restored - 30.0}}
    assert words in verdict([run(tmp_path, metrics=figures)]).text


def test_of_several_runs_the_best_is_named(tmp_path):
    figures = {"blurry": 18.5, "restored": 23.0, "gain": 4.5}
    runs = [run(tmp_path), run(tmp_path, "b", metrics={"psnr": figures}), run(tmp_path, "c", False)]
    said = verdict(runs)
    assert said.preset == "b"
    assert said.text.startswith("Preset b, best of 2, takes 6 frames")
    assert "23.00 dB" in said.text


def test_the_best_is_the_lowest_where_lower_is_better(tmp_path):
    metrics = [{"lpips": {"blurry": 0.5, "restored": r, "gain": 0.5 - r}} for r in (0.1, 0.2)]
    runs = [run(tmp_path, n, metrics=m, worst=[]) for n, m in zip("ab", metrics, strict=True)]
    assert verdict(runs).text == (
        "Preset a, best of 2, takes 6 frames of data set gopro from LPIPS 0.5000 (blurry) to "
        "0.1000 (restored, lower is better): a gain of 0.4000, at commit 01234567."
    )


def test_figures_of_other_test_frames_do_not_compare(tmp_path):
    figures = {"psnr": {"blurry": 30.0, "restored": 40.0, "gain": 10.0}}
    others = {
        "data": {"data": "reds"},
        "split": {"split": "val"},
        "blur": {"blur_dir": "blur_gamma"},
        "scale": {"scales": (0.5,)},
        "frames": {"sequences": ("GOPR1",)},
    }
    runs = [run(tmp_path)] + [
        run(tmp_path, name, metrics=figures, **other) for name, other in others.items()
    ]
    said = verdict(runs)
    assert said.text.startswith("Preset a takes 6 frames")
    assert said.facts[-1] == (
        "not compared, of other test frames or metrics: data, split, blur, scale, frames"
    )


@pytest.mark.parametrize(("git", "code"), [(True, []), (False, ["x.py"])])
def test_code_that_is_not_that_of_the_commit_says_so(tmp_path, git, code):
    make_run(tmp_path, "a")
    path = tmp_path / "train/a/run.json"
    record = read_json(path) | {"code_changed": code}
    record["environment"]["git"]["changed"] = git
    write_json(path, record)
    make_evaluation(tmp_path, "a")
    words = verdict([read_run(tmp_path, "a", tmp_path)]).text
    assert words.endswith("at commit 01234567 with changes.")


def test_warnings_come_first_and_a_model_without_spikes_says_so(tmp_path):
    options = {"settings": {"MODEL": {"USE_SPIKE": False}}, "warnings": ["not a test: 1 of 2"]}
    said = verdict([run(tmp_path, spikes=False, sequences=("one",), **options)])
    assert said.facts[:2] == ("not a test: 1 of 2", "PSNR, mean over 1 sequence of split test")
    assert said.facts[-2] == "the model takes no spikes"


def test_without_figures_it_says_what_was_trained(tmp_path):
    alone = run(tmp_path, evaluated=False)
    said = verdict([alone])
    assert said.text == "Trained, without figures of test frames: a, at commit 01234567."
    assert said.facts == ("a: not evaluated",)
    none = {"psnr": {"blurry": None, "restored": None, "gain": None, "reason": "equal"}}
    said = verdict([alone, run(tmp_path, "b", metrics=none)])
    assert said.text.endswith(
        "figures of test frames: a, at commit 01234567, b, at commit 01234567."
    )
    assert said.facts == ("a: not evaluated", "b: the evaluation has no finite figure")
