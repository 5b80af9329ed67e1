"""The words and columns of deblurring on the report page."""

from __future__ import annotations

import pytest

from tests.reporting.results import make_alignment
from vrtspike.deblurring.report import DeblurringReport
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.metrics.registry import METRICS

REPORT = DeblurringReport()


def validated(value: str, **sections: dict[str, object]) -> DeblurringSettings:
    """Settings with a value of DATA.VALIDATION."""
    return DeblurringSettings.model_validate({"DATA": {"VALIDATION": value}, **sections})


def test_frames_are_described_by_the_folder_of_the_blurry_ones():
    assert REPORT.frames_detail({"blur_dir": "blur_gamma"}) == ", blurry ones of blur_gamma"
    assert REPORT.frames_detail({}) == ""


@pytest.mark.parametrize(("name", "qualifier"), [("psnr", "grey"), ("psnr_y", "")])
def test_spikes_alone_are_a_further_reference(name, qualifier):
    extra = REPORT.extra_reference(METRICS[name], {"spikes_alone": {name: 15.0}})
    column = f"{name}_spikes"
    assert extra == {
        "title": "spikes alone", "qualifier": qualifier, "column": column, "mean": 15.0,
    }  # fmt: skip
    assert REPORT.extra_reference(METRICS[name], {"spikes_alone": None})["mean"] is None


@pytest.mark.parametrize("note", ["rate in a window", "spikes alone: rate in a window"])
def test_the_note_on_spikes_alone_is_a_sentence(note):
    assert REPORT.notes({"spikes_alone_note": note}) == ["Spikes alone: rate in a window."]
    assert REPORT.notes({}) == []


@pytest.mark.parametrize(
    ("larger_is_better", "values", "names"),
    [
        (True, [(23.0, 21.0), (20.0, 21.0), (None, 21.0), (30.0, 21.0)], "a, d"),
        (False, [(0.1, 0.2), (0.3, 0.2), (0.1, None), (0.2, 0.2)], "a"),
    ],
)
def test_sequences_with_better_spikes_alone_are_named(larger_is_better, values, names):
    extra = REPORT.extra_reference(METRICS["psnr"], {})
    metric = {
        "title": "PSNR", "columns": ("psnr_blur", "psnr"), "extra": extra,
        "larger_is_better": larger_is_better,
    }  # fmt: skip
    rows = [
        {"sequence": name, "psnr_spikes": alone, "psnr": restored}
        for name, (alone, restored) in zip("abcd", values, strict=True)
    ]
    remark = REPORT.remark([metric], rows)
    count = len(names.split(", "))
    assert remark["sentence"] == (
        f"On {count} of 4 sequences ({names}) the picture from spikes alone has the better PSNR."
    )
    assert remark["explanation"].startswith("It is compared in grey")
    assert REPORT.remark([metric], rows[1:3]) is None
    assert REPORT.remark([], rows) is None


def test_validated_frames_are_named_by_run():
    held_out, test = validated("held_out"), validated("test")
    untrained = validated("test", TRAIN={"MAX_STEPS": 0}, MODEL={"PRETRAINED": "general"})
    assert untrained.unchanged_weights == "general"
    training = "training sequences that are held out"
    one = f"Validations while training are of centre crops of {training}."
    assert REPORT.validation_note({"a": held_out, "b": held_out, "c": untrained}) == one
    assert REPORT.validation_note({"a": held_out, "b": test, "c": held_out}) == (
        f"Validations while training are of centre crops: a, c of {training}; b of test frames."
    )
    assert REPORT.validation_note({"c": untrained}) == ""


def test_a_data_set_without_a_table_of_alignment_says_so(tmp_path):
    make_alignment(tmp_path, "gopro")
    (part,) = REPORT.data_parts(tmp_path, ["other", "gopro"])
    assert (part["title"], part["is_missing"]) == ("gopro", False)
    (missing,) = REPORT.data_parts(tmp_path, ["other"])
    assert (missing["title"], missing["is_missing"]) == ("", True)


@pytest.mark.parametrize("uses_spikes", [True, False])
def test_a_model_card_mentions_spikes_if_the_model_uses_them(uses_spikes):
    card = REPORT.card(DeblurringSettings.model_validate({"MODEL": {"USE_SPIKE": uses_spikes}}))
    assert ("spike-camera" in card.tags) is uses_spikes
    assert card.usage == f"restored = model.restore(frames{', spikes' if uses_spikes else ''})"
    assert any("Spikes are expected" in text for text in card.limits) is uses_spikes
