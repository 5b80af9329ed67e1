from __future__ import annotations

import pytest

from vrtspike.analysis.findings import Finding, preset_text, proposed_keys
from vrtspike.config import load_preset
from vrtspike.deblurring.settings import Settings


def finding(symptom: str, **keys: object) -> Finding:
    dotted = {key.replace("__", "."): value for key, value in keys.items()}
    return Finding(symptom, "warning", 0.5, f"figure of {symptom}", "change", "effect", dotted)


@pytest.fixture(scope="module")
def preset() -> Settings:
    return Settings()


def test_the_more_important_finding_wins(preset):
    findings = [
        finding("first", TRAIN__BATCH_SIZE=2),
        finding("second", TRAIN__BATCH_SIZE=4, TRAIN__COMPILE_MODEL=True),
    ]
    assert proposed_keys(findings, preset) == {"TRAIN.BATCH_SIZE": 2, "TRAIN.COMPILE_MODEL": True}


def test_what_fills_the_memory_is_taken_from_one_finding(preset):
    findings = [
        finding("first", MODEL__VRT__USE_CHECKPOINT_FFN=False),
        finding("second", TRAIN__BATCH_SIZE=2, TRAIN__COMPILE_MODEL=True),
        finding("third", TRAIN__SCALE_LR="sqrt"),
    ]
    first = {"MODEL.VRT.USE_CHECKPOINT_FFN": False, "TRAIN.COMPILE_MODEL": True}
    assert proposed_keys(findings, preset) == first
    assert proposed_keys(findings[1:], preset) == {
        "TRAIN.BATCH_SIZE": 2,
        "TRAIN.COMPILE_MODEL": True,
    }


def test_what_the_schema_refuses_is_left_out(preset):
    findings = [finding("bad", TRAIN__BATCH_SIZE=0), finding("good", TRAIN__BATCH_SIZE=2)]
    assert proposed_keys(findings, preset) == {"TRAIN.BATCH_SIZE": 2}


@pytest.mark.parametrize(
    "keys", [{}, {"TRAIN.BATCH_SIZE": 2, "DATALOADER.TOTAL_WORKERS": "cpu*1.0"}]
)
def test_the_text_is_a_preset_that_differs_from_its_base_in_these_keys(tmp_path, keys):
    (tmp_path / "slow.yaml").write_text("TRAIN:\n  EPOCHS: 7\n")
    findings = [finding("waiting", **{key.replace(".", "__"): keys[key] for key in keys})]
    (tmp_path / "proposed.yaml").write_text(preset_text("slow", keys, findings))
    overrides = [f"{key}={value}" for key, value in keys.items()]
    expected = load_preset(tmp_path / "slow.yaml", overrides)
    assert load_preset(tmp_path / "proposed.yaml") == expected


def test_every_key_stands_with_the_figure_that_proposed_it(preset):
    findings = [
        finding("first", TRAIN__BATCH_SIZE=2),
        finding("second", TRAIN__BATCH_SIZE=4, TRAIN__COMPILE_MODEL=True),
        finding("third", TRAIN__COMPILE_MODEL=False),
    ]
    text = preset_text("slow", proposed_keys(findings, preset), findings)
    assert set(text.splitlines()[1:3]) == {
        "# TRAIN.BATCH_SIZE: first: figure of first",
        "# TRAIN.COMPILE_MODEL: second: figure of second",
    }
