"""Findings: the keys that several of them propose, and the preset with these."""

from __future__ import annotations

import pytest

from vrtspike.analysis.diagnosis.findings import preset_text, proposed_keys
from vrtspike.analysis.diagnosis.symptom import Finding
from vrtspike.config import load_preset
from vrtspike.deblurring_settings import DeblurringSettings


def finding(symptom: str, **keys: object) -> Finding:
    dotted = {key.replace("__", "."): value for key, value in keys.items()}
    return Finding(
        symptom=symptom,
        severity="warning",
        weight=0.5,
        evidence=f"evidence of {symptom}",
        change="change",
        effect="effect",
        keys=dotted,
    )


RECOMPUTING = DeblurringSettings.model_validate(
    {"MODEL": {"VRT": {"USE_CHECKPOINT_FFN": True, "USE_CHECKPOINT_ATTN": True}}}
)
FIRST = finding("first", TRAIN__BATCH_SIZE=2)
SECOND = finding("second", TRAIN__BATCH_SIZE=4, TRAIN__COMPILE_MODEL=True)
FILLS = finding("fills the memory", MODEL__VRT__USE_CHECKPOINT_FFN=False)


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        # The more important finding wins.
        ([FIRST, SECOND], {"TRAIN.BATCH_SIZE": 2, "TRAIN.COMPILE_MODEL": True}),
        # Keys that use memory are taken from one finding only.
        (
            [FILLS, SECOND, finding("third", TRAIN__BATCH_SIZE=8)],
            {"MODEL.VRT.USE_CHECKPOINT_FFN": False, "TRAIN.COMPILE_MODEL": True},
        ),
        ([FIRST, FILLS], {"TRAIN.BATCH_SIZE": 2}),
    ],
)
def test_keys_of_several_findings(findings, expected):
    assert proposed_keys(findings, RECOMPUTING) == expected


@pytest.mark.parametrize(
    "keys", [{}, {"TRAIN.BATCH_SIZE": 2, "DATALOADER.TOTAL_WORKERS": "cpu*1.0"}]
)
def test_the_text_is_a_preset_that_differs_from_its_base_in_these_keys(tmp_path, keys):
    (tmp_path / "slow.yaml").write_text("TRAIN:\n  EPOCHS: 7\n")
    findings = [finding("waiting", **{key.replace(".", "__"): keys[key] for key in keys})]
    (tmp_path / "proposed.yaml").write_text(preset_text("slow", "slow", keys, findings))
    overrides = [f"{key}={value}" for key, value in keys.items()]
    expected = load_preset(tmp_path / "slow.yaml", overrides)
    assert load_preset(tmp_path / "proposed.yaml") == expected


def test_every_key_stands_with_the_evidence_that_proposed_it():
    findings = [FIRST, SECOND, finding("third", TRAIN__COMPILE_MODEL=False)]
    text = preset_text("slow", "", proposed_keys(findings, RECOMPUTING), findings)
    assert set(text.splitlines()[1:4]) == {
        "# Put in: BASE, the preset that it was trained with.",
        "# TRAIN.BATCH_SIZE: first: evidence of first",
        "# TRAIN.COMPILE_MODEL: second: evidence of second",
    }
