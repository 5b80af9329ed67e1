"""Advice on a run of deblurring: its keys, for VRT and for the light model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vrtspike.config.loading import override_settings
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.deblurring.advice.run_advice import DeblurringAdvice
from vrtspike.deblurring_settings import DeblurringSettings

LIGHT = {"TYPE": "spike_nafnet", "NAF": {"WIDTH": 8}, "PRETRAINED": "general"}


def advice(**sections: Any) -> DeblurringAdvice:
    return DeblurringAdvice(DeblurringSettings.model_validate(sections))


def test_keys_that_recompute_are_named_while_they_are_set() -> None:
    # The feed-forward layers save less memory than the attention.
    keys = ("MODEL.VRT.USE_CHECKPOINT_FFN", "MODEL.VRT.USE_CHECKPOINT_ATTN")
    assert advice().recompute_keys == keys
    assert advice(MODEL={"VRT": {"USE_CHECKPOINT_FFN": False}}).recompute_keys == keys[1:]
    assert advice(MODEL=LIGHT).recompute_keys == ()


def test_fewer_blocks_are_proposed_for_vrt_alone() -> None:
    assert "MODEL.VRT_DEPTHS" in advice().smaller_model
    assert advice(MODEL=LIGHT).smaller_model == "a smaller model, which changes the result"


@pytest.mark.parametrize(
    ("start", "remedy"),
    [
        ("results/train/mine", "name a result folder"),
        ("somebody/model", "hf download somebody/model"),
        ("vrt.pth", "; VRT's published weights belong to MODEL.VRT.PRETRAINED"),
    ],
)
def test_missing_weights_have_a_remedy(start, remedy, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("vrt.pth").touch()
    remedies = advice(MODEL={"PRETRAINED": start}).missing_weights
    assert list(remedies) == ["MODEL.PRETRAINED"]
    assert remedy in remedies["MODEL.PRETRAINED"]
    assert advice().missing_weights == {}


def test_overrides_keep_the_crops_of_the_first_phase_and_a_fixed_flow() -> None:
    phases = [{"CROP_SIZE": 64, "EPOCHS": 2}, {"CROP_SIZE": 128, "EPOCHS": 3}]
    settings = DeblurringSettings.model_validate(
        {"TRAIN": {"PROGRESSIVE": phases, "FREEZE_FLOW_STEPS": 9}}
    )
    overrides = parse_overrides(DeblurringAdvice(settings).first_steps)
    timed = override_settings(settings, overrides, "the preset").TRAIN
    assert [phase.CROP_SIZE for phase in timed.PROGRESSIVE] == [64]
    assert timed.PROGRESSIVE[0].EPOCHS >= 1_000_000
    assert timed.FREEZE_FLOW_STEPS >= 1_000_000
    assert advice(TRAIN={"FREEZE_FLOW_STEPS": 0}).first_steps == ()
