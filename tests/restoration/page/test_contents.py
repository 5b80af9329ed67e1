"""Metrics, doubts and words of the page of restored frames."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vrtspike.restoration.page.contents import (
    ModelOnPage,
    frame_doubts,
    headline,
    model_contents,
    model_metrics,
)

METRICS = [
    {"frame": "a", "agreement_blur": 0.5, "agreement": 0.75, "reblur_blur": 30.0, "reblur": 40.0},
    {"frame": "b", "agreement_blur": 0.5, "agreement": 0.25, "reblur_blur": 30.0, "reblur": 20.0},
    {"frame": "c"},
]
RECORD = {"spikes": {"from": "recorded"}, "size": [48, 64], "doubts": []}


def on_page(label="general", metrics=METRICS, **doubts) -> ModelOnPage:
    clip = SimpleNamespace(source=SimpleNamespace(names=["a", "b", "c"]))
    return ModelOnPage(label, clip, metrics, frame_doubts(metrics, **doubts))


def test_reasons_to_doubt_frames():
    doubts = frame_doubts(METRICS, misfits=["c"], kept=["b"])
    assert {name: len(reasons) for name, reasons in doubts.items()} == {"b": 2, "c": 1}
    assert doubts["c"] == ["its spikes do not fit the blurry frame"]
    assert "the blurry frame was kept" in doubts["b"][0]
    lower = [{"frame": "a", "psnr_blur": 20.0, "psnr": 19.0}, {"frame": "b", "psnr": None}]
    assert frame_doubts(lower) == {"a": ["PSNR is below that of the blurry frame"]}


def test_means_are_of_the_frames_that_have_a_value():
    agreement, reblur = model_metrics(METRICS)
    assert (agreement["name"], agreement["reference"], agreement["result"]) == (
        "agreement", 0.5, 0.5,
    )  # fmt: skip
    assert reblur["gain"] == 0.0
    first = model_metrics([{"psnr_blur": 20.0, "psnr": 30.0, "agreement": 0.5}])[0]
    assert (first["name"], first["gain"]) == ("psnr", 10.0)
    assert model_metrics([{"frame": "a"}]) == []
    (equal,) = model_metrics([{"psnr_blur": 20.0, "psnr": None}])
    assert (equal["reference"], equal["result"], equal["gain"]) == (20.0, None, None)


def test_the_data_of_a_model_have_all_values_and_the_worst_frame_first():
    pictures = {0: {"blurry": "0.webp"}, 1: {"blurry": "1.webp"}, 2: {"blurry": "2.webp"}}
    contents = model_contents(on_page(misfits=["c"]), "clip", pictures)
    assert contents["frame_values"]["reblur"] == [40.0, 20.0, None]
    assert contents["doubtful"] == [1, 2]
    examples = contents["evaluation"]["examples"]
    assert [example["frame"] for example in examples] == ["b", "a", "c"]
    assert [example["time"] for example in examples] == [1, 0, 2]
    assert examples[0]["pictures"] == {"blurry": "1.webp"}
    assert [len(example["doubts"]) for example in examples] == [1, 0, 1]
    fewer = model_contents(on_page(), "clip", {1: {}})
    assert len(fewer["evaluation"]["examples"]) == 1
    assert len(fewer["frame_values"]["reblur"]) == 3


@pytest.mark.parametrize(
    ("models", "sentence", "fact"),
    [
        (
            [on_page()],
            "general restored 3 frames of clip: Correlation with the spikes **0.500** (blurry) to "
            "**0.500**.",
            "1 of 3 frames in doubt",
        ),
        (
            [on_page(metrics=METRICS[:1]), on_page("other", METRICS[1:2])],
            "general restored 1 frame of clip: Correlation with the spikes **0.500** (blurry) to "
            "**0.750**; other to **0.250**.",
            "general: no frame in doubt",
        ),
        ([on_page(metrics=METRICS[2:])], "general restored 1 frame of clip.", "no frame in doubt"),
    ],
)
def test_the_headline_states_the_gain_or_the_doubt(models, sentence, fact):
    begin = headline(models, "clip", RECORD)
    assert begin.sentence == sentence
    assert begin.facts[0] == fact
    doubted = headline(models, "clip", RECORD | {"doubts": ["a: does not fit"]})
    assert "metrics from the spikes are left out" in doubted.facts[-1]
