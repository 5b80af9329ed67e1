"""The report page: contents, escaping, size limit, videos and verdict."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re

import cv2
import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from tests.reporting.results import (
    make_alignment,
    make_evaluation,
    make_run,
    picture,
    write_picture,
)
from vrtspike.io.files import read_json, write_json
from vrtspike.reporting.page import write_report_page
from vrtspike.reporting.run_data import read_run_on_page
from vrtspike.reporting.verdict import verdict
from vrtspike.runs.validation_pictures import picture_file
from vrtspike.system.errors import RunError

HOSTILE = "</script><img src=x onerror=alert(1)>{{data}}&amp;"


def write(results, *names, page_bytes=19_000_000):
    output = results / "index.html"
    write_report_page(results, names, results / "presets", output, page_bytes)
    return output.read_text(encoding="utf-8")


def stored_in(text: str) -> dict[str, str]:
    """The data of scripts, by name."""
    return dict(re.findall(r'<script[^>]* id="([^"]+)"[^>]*>\s*(.*?)\s*</script>', text, re.DOTALL))


def data_of(text: str):
    return json.loads(stored_in(text)["report"])


def headline_of(text: str) -> str:
    (headline,) = re.findall(r"<h1[^>]*>(.*?)</h1>", text, re.DOTALL)
    return html.unescape(re.sub(r"</?strong>", "", headline))


@pytest.fixture
def results(tmp_path):
    make_run(tmp_path, "a")
    make_evaluation(tmp_path, "a")
    make_alignment(tmp_path)
    return tmp_path


def test_the_page_holds_all_of_a_run(results):
    text = write(results, "a")
    assert headline_of(text).startswith("Preset a takes 6 frames of data set gopro from 18.50 dB")
    assert '<p class="about">A spike camera takes no frames' in text
    stored, report = stored_in(text), data_of(text)
    (run,) = report["runs"]
    assert run["evaluation"]["metrics"][0]["result"] == 22.5
    assert run["performance"]["findings"][0]["symptom"] == "waiting for data"
    validation = {"steps": [20, 40], "values": [28.0, 30.0], "width": 1}
    assert run["curves"]["validation"]["PSNR, dB"] == validation
    assert dict(run["origin"]["facts"])["fingerprint"] == "print of a"
    assert "correlate by 0.900 (median)" in report["data"][0]["text"]
    examples = run["evaluation"]["examples"]
    assert [example["frame"] for example in examples] == ["000001", "000002", "000003"] * 2
    for example in examples:
        for encoded in example["pictures"].values():
            assert base64.b64decode(encoded)[8:12] == b"WEBP"
    assert "files" not in examples[0]
    packed = base64.b64decode(stored["plotly"])
    assert gzip.decompress(packed).decode() == get_plotlyjs()
    # Equal results give equal pages.
    assert write(results, "a") == text


def test_the_page_asks_for_nothing_from_outside(results):
    text = write(results, "a")
    elements = re.sub(r"(<script[^>]*>).*?</script>", r"\1", text, flags=re.DOTALL)
    links = re.findall(r'\s(?:src|href|action)="([^"]*)"', elements)
    assert links
    assert all(link.startswith(("data:", "#")) for link in links)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src 'none'" in policy
    for word in ("http", "@import", "innerHTML", "insertAdjacentHTML"):
        assert word not in (policy if word == "http" else text)


def test_names_are_texts_whatever_they_hold(tmp_path):
    make_run(tmp_path, "a", HOSTILE.replace("/", "|"))
    make_evaluation(tmp_path, "a", ("街道_夜间",), data=HOSTILE)
    text = write(tmp_path, "a")
    assert "<img" not in text.partition("<script>")[0]
    assert html.escape(HOSTILE) in text
    assert HOSTILE in headline_of(text)
    (run,) = data_of(text)["runs"]
    assert run["evaluation"]["dataset"] == HOSTILE
    assert run["evaluation"]["examples"][0]["sequence"] == "街道_夜间"
    assert "街道_夜间" in text


def test_pictures_are_made_smaller_and_left_out_to_keep_the_limit(tmp_path):
    make_run(tmp_path, "a")
    make_evaluation(tmp_path, "a", [f"GOPR{number}" for number in range(3)], size=(90, 160))
    whole = len(write(tmp_path, "a").encode())
    for page_bytes, left_out in ((whole - 5_000, 0), (0, 9)):
        text = write(tmp_path, "a", page_bytes=page_bytes)
        report = data_of(text)
        assert len(text.encode()) < whole
        assert len(report["runs"][0]["evaluation"]["examples"]) == 9 - left_out
        assert report["pictures"]["left_out"] == left_out
        assert re.match(r"WebP of quality [4-7]\d, ", report["pictures"]["form"])


def test_small_videos_are_put_in_and_large_ones_linked(results, monkeypatch):
    monkeypatch.setattr("vrtspike.reporting.embedded_media.VIDEO_BYTES", 50)
    monkeypatch.setattr("vrtspike.reporting.embedded_media.ALL_VIDEO_BYTES", 60)
    folder = results / "evaluate/a/videos"
    folder.mkdir()
    for name, size in (("a large", 51), ("first", 20), ("second", 30), ("too many", 40)):
        (folder / f"{name}.mp4").write_bytes(name[:1].encode() * size)
    text = write(results, "a")
    (run,) = data_of(text)["runs"]
    videos = {video["label"]: video for video in run["evaluation"]["videos"]}
    assert [name for name, video in videos.items() if video["data"]] == ["first", "second"]
    assert base64.b64decode(videos["second"]["data"]) == b"s" * 30
    assert videos["a large"]["link"] == "evaluate/a/videos/a large.mp4"


def test_pictures_of_validations_are_put_in_and_left_out_to_keep_their_limit(results, monkeypatch):
    assert data_of(write(results, "a"))["runs"][0]["validation_pictures"] == []
    for step in (20, 40, 60):
        write_picture(picture_file(results / "train/a", step, "restored"), picture(step))
    (run,) = data_of(write(results, "a"))["runs"]
    assert [(entry["step"], entry["name"]) for entry in run["validation_pictures"]] == [
        (20, "restored"),
        (40, "restored"),
        (60, "restored"),
    ]
    contents = base64.b64decode(run["validation_pictures"][1]["data"])
    shown = cv2.imdecode(np.frombuffer(contents, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert np.abs(shown.astype(int) - picture(40)).mean() < 12
    size = len(run["validation_pictures"][1]["data"])
    monkeypatch.setattr("vrtspike.reporting.embedded_media.VALIDATION_BYTES", 2 * size)
    (run,) = data_of(write(results, "a"))["runs"]
    assert [entry["step"] for entry in run["validation_pictures"]] == [20, 60]


def test_a_run_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RunError, match=r"train/none/run\.json: no such file"):
        write(tmp_path, "none")
    (make_run(tmp_path, "a") / "metrics.jsonl").unlink()
    with pytest.raises(RunError, match=r"no metrics\.jsonl"):
        write(tmp_path, "a")


def run(results, name="a", evaluated=True, settings=None, **evaluation):
    make_run(results, name, **(settings or {}))
    if evaluated:
        make_evaluation(results, name, **evaluation)
    return read_run_on_page(results, name, results)


FACTS = (
    "PSNR, mean over the sequences (2) of split test",
    "trained: 40 steps, 40 s, begun 1970-01-01 00:00 UTC, 1 x H200, 140 GiB of GPU memory, "
    "8 CPUs, host node7",
)
START = "Preset a takes 6 frames of data set gopro from "
UNMEASURED = "Trained, without metrics of test frames: "
NOT_EVALUATED = "a: not evaluated: no summary.json of run print of a; evaluate again"
COMMIT = ", at commit 01234567"


def measured(blurry, restored, metric="psnr"):
    gain = restored - blurry if metric == "psnr" else blurry - restored
    return {"metrics": {metric: {"blurry": blurry, "restored": restored, "gain": gain}}}


NONE = {"psnr": {"blurry": None, "restored": None, "gain": None, "reason": "equal"}}
UNMEASURED_INPUT = {"psnr": {"blurry": None, "restored": 40.0, "gain": 10.0}}
BETTER = measured(30.0, 40.0)
NO_TEST = "not a test: 1 of 2 test sequences"


@pytest.mark.parametrize(
    ("made", "best", "text", "facts"),
    [
        (
            {"a": {}},
            "a",
            f"{START}18.50 dB (blurry) to 22.50 dB (restored): a gain of 4.00 dB{COMMIT}.",
            FACTS,
        ),
        (
            {"a": {"sequences": [f"GOPR{n}" for n in range(5)], "mean_over": "sequences"}},
            "a",
            "Preset a takes 15 frames",
            ("95 % interval of the gain, over sequences: +4.00 to +4.00 dB",),
        ),
        (
            {"a": {"mean_over": "frames"}},
            "a",
            START,
            ("PSNR, mean over the frames (6) of split test",),
        ),
        ({"a": measured(30.0, 28.0)}, "a", f"a loss of 2.00 dB{COMMIT}.", FACTS),
        # A gain that rounds to zero is no gain.
        ({"a": measured(30.0, 29.999)}, "a", f"to 30.00 dB (restored): no change{COMMIT}.", ()),
        (
            {"a": {}, "b": measured(18.5, 23.0), "c": {"evaluated": False}},
            "b",
            "to 23.00 dB (restored): a gain of 4.50 dB",
            (),
        ),
        (
            {
                n: {**measured(0.5, r, "lpips"), "worst": []}
                for n, r in {"a": 0.1, "b": 0.2}.items()
            },
            "a",
            "Preset a, best of 2, takes 6 frames of data set gopro from LPIPS 0.5000 (blurry) to "
            f"0.1000 (restored, lower is better): a gain of 0.4000{COMMIT}.",
            (),
        ),
        # If the PSNR is infinite, the sentence uses another metric.
        ({"a": {"metrics": NONE | measured(0.5, 0.1, "lpips")["metrics"]}}, "a", "from LPIPS", ()),
        # If a value is missing, it uses another metric as well.
        (
            {"a": {"metrics": UNMEASURED_INPUT | measured(0.5, 0.1, "lpips")["metrics"]}},
            "a",
            "from LPIPS",
            (),
        ),
        # Metrics of other test frames do not compare.
        (
            {
                "a": {},
                "data": {**BETTER, "data": "reds"},
                "split": {**BETTER, "split": "val"},
                "blur": {**BETTER, "blur_dir": "blur_gamma"},
                "frames": {**BETTER, "sequences": ("GOPR1",)},
            },
            "a",
            START,
            ("not compared, of other test frames or metrics: data, split, blur, frames",),
        ),
        # Nor do those of data that changed under one name.
        (
            {
                "a": {"dataset_digest": "before", "bins": 4},
                "changed": {**BETTER, "dataset_digest": "after", "bins": 4},
            },
            "a",
            START,
            ("not compared, of other test frames or metrics: changed",),
        ),
        # Other bins make another data set of the same frames.
        (
            {
                "a": {"dataset_digest": "of 4 bins", "bins": 4},
                "bins": {**BETTER, "dataset_digest": "of 8 bins", "bins": 8},
            },
            "bins",
            "Preset bins, best of 2,",
            (),
        ),
        (
            {
                "a": {
                    "settings": {"MODEL": {"USE_SPIKE": False}},
                    "spikes": False,
                    "sequences": ("one",),
                    "warnings": ["not a test: 1 of 2"],
                }
            },
            "a",
            "Preset a takes 3 frames",
            (
                "not a test: 1 of 2",
                "PSNR, mean over the sequences (1) of split test",
            ),
        ),
        # Values that are no test of a model do not make it the best, and choose no test frames.
        (
            {
                "chosen": {**BETTER, "data": "reds", "warnings": ["chosen on the test split: ..."]},
                "a": {},
                "trained": {**BETTER, "warnings": [NO_TEST]},
                "split": {**BETTER, "split": "val"},
            },
            "a",
            START,
            (
                "not compared, of other test frames or metrics: split",
                "not counted, no test of the model: chosen, trained",
            ),
        ),
        (
            {"a": {"warnings": [NO_TEST]}, "b": {**BETTER, "warnings": [NO_TEST]}},
            "b",
            "Preset b, best of 2,",
            (NO_TEST,),
        ),
        ({"a": {"evaluated": False}}, "", f"{UNMEASURED}a{COMMIT}.", (NOT_EVALUATED,)),
        (
            {"a": {"evaluated": False}, "b": {"metrics": NONE}},
            "",
            f"{UNMEASURED}a{COMMIT}, b{COMMIT}.",
            (NOT_EVALUATED, "b: the evaluation has no finite value"),
        ),
    ],
)
def test_the_result_is_a_sentence_and_facts(tmp_path, made, best, text, facts):
    result = verdict([run(tmp_path, name, **options) for name, options in made.items()])
    assert result.preset == best
    assert text in result.text
    assert [fact for fact in result.facts if fact in facts] == list(facts)
    bold = result.sentence.split("**")[1::2]
    assert all(value in bold for value in re.findall(r"\d+\.\d\d dB", text) if best)


@pytest.mark.parametrize(("git", "code"), [(True, []), (False, ["x.py"])])
def test_code_that_differs_from_its_commit_is_noted(tmp_path, git, code):
    make_run(tmp_path, "a")
    path = tmp_path / "train/a/run.json"
    record = read_json(path) | {"code_changed": code}
    record["environment"]["git"]["changed"] = git
    write_json(path, record)
    make_evaluation(tmp_path, "a")
    words = verdict([read_run_on_page(tmp_path, "a", tmp_path)]).text
    assert words.endswith("at commit 01234567 with changes.")
