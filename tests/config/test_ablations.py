"""Variants of an ablation: settings, names, and refused presets."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.config.loading import derive_variant, load_preset
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.deblurring_settings.schema import ABLATION
from vrtspike.system.errors import ConfigError

CONFIG = ["config.yaml"]


@pytest.fixture
def presets(configured) -> Path:
    files = {
        "spiky": "SEED: 7\nTRAIN: {MAX_STEPS: 9}\n",
        "short": "DATA: {CLIP_LEN: 1}\n",
        "plain": "MODEL: {USE_SPIKE: false}\n",
        "kept": "MODEL: {PRETRAINED: general}\nTRAIN: {MAX_STEPS: 0}\n",
        "config": "PRESETS: [spiky]\nDATA: {ROOT: data/here}\n",
    }
    return configured(**files) / "config/presets"


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("spiky-without-spikes", "USE_SPIKE", False),
        ("spiky-shuffled-spikes", "SPIKE_ORDER", "shuffled"),
    ],
)
def test_a_derived_preset_differs_in_one_key(presets, name, key, value):
    overrides = {"SET": "TRAIN.OPTIM.LR=3.0e-3"}
    expected = load_workflow_config(CONFIG, overrides).settings_of("spiky").model_dump()
    assert (expected["SEED"], expected["TRAIN"]["OPTIM"]["LR"]) == (7, 3e-3)
    assert expected["MODEL"][key] != value
    expected["MODEL"][key] = value
    workflow = load_workflow_config(CONFIG, overrides)
    assert workflow.settings_of(name).model_dump() == expected
    deblurring = DeblurringConfig(workflow)
    assert deblurring.data_source(name) == deblurring.data_source("spiky")


def test_the_default_preset_has_all_variants(repository):
    light = load_preset(repository / "config/presets/light.yaml")
    for variant in ABLATION.variants:
        derived = derive_variant("light", light, variant)
        key, value = variant.override.split("=")
        assert str(derived.value(key)).lower() == value


def test_derived_presets_have_names_but_are_no_presets_of_the_folder(presets):
    workflow = load_workflow_config(CONFIG)
    assert list(workflow.presets) == ["kept", "plain", "short", "spiky"]
    assert len(workflow.trainings) == 12
    assert {"spiky", "spiky-without-spikes", "spiky-shuffled-spikes"} < set(workflow.trainings)
    with pytest.raises(ConfigError, match="PRESETS names 'spiky-without-spikes'"):
        load_workflow_config(CONFIG, {"PRESETS": ["spiky-without-spikes"]})


SHUFFLED = "MODEL.SPIKE_ORDER=shuffled DATA.CLIP_LEN=3"


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        *(
            (name, "", f"no preset '{name}'; there are: kept, plain, short, spiky$")
            for name in ("nosuch-without-spikes", "spiky-without", "-without-spikes")
        ),
        ("plain-shuffled-spikes", "", "preset plain: MODEL.USE_SPIKE is false; an ablation"),
        ("kept-without-spikes", "", r"preset kept: TRAIN\.MAX_STEPS is 0, so that no variant"),
        ("short-without-spikes", SHUFFLED, 'short: MODEL.SPIKE_ORDER is "shuffled"; an ablation'),
        (
            "short-shuffled-spikes",
            "",
            "preset short-shuffled-spikes: .*CLIP_LEN is 1; expected 3",
        ),
    ],
)
def test_impossible_variants_are_refused(presets, name, overrides, message):
    # Clips may be short where spikes are not shuffled.
    assert not load_workflow_config(CONFIG).settings_of("short-without-spikes").MODEL.USE_SPIKE
    with pytest.raises(ConfigError, match=message):
        load_workflow_config(CONFIG, {"SET": overrides}).settings_of(name)


@pytest.mark.parametrize("variant", ABLATION.variants, ids=lambda variant: variant.label)
def test_a_preset_file_with_a_derived_name_is_refused(presets, variant):
    (presets / f"other{variant.suffix}.yaml").write_text("")  # of no other preset
    load_workflow_config(CONFIG)
    (presets / f"spiky{variant.suffix}.yaml").write_text("")
    with pytest.raises(ConfigError, match=rf"spiky{variant.suffix}\.yaml: .* rename the file"):
        load_workflow_config(CONFIG)
