"""What an ablation derives from a preset: its settings, its names, and what cannot be derived."""

from __future__ import annotations

import pytest

from vrtspike.config.workflow import load_workflow
from vrtspike.deblurring.datasets import DeblurringWorkflow
from vrtspike.deblurring.settings.schema import ABLATION
from vrtspike.errors import ConfigError

CONFIG = ["config.yaml"]


@pytest.fixture
def presets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "config/presets"
    folder.mkdir(parents=True)
    (folder / "spiky.yaml").write_text("SEED: 7\nTRAIN: {MAX_STEPS: 9}\n")
    (folder / "short.yaml").write_text("DATA: {CLIP_LEN: 1}\n")
    (folder / "plain.yaml").write_text("MODEL: {USE_SPIKE: false}\n")
    (tmp_path / "config.yaml").write_text("PRESETS: [spiky]\nDATA: {ROOT: data/here}\n")
    return folder


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("spiky-without-spikes", "USE_SPIKE", False),
        ("spiky-shuffled-spikes", "SPIKE_ORDER", "shuffled"),
    ],
)
def test_a_derived_preset_differs_in_one_key(presets, name, key, value):
    overrides = {"SET": "TRAIN.OPTIM.LR=3.0e-3"}
    expected = load_workflow(CONFIG, overrides).preset("spiky").model_dump()
    assert (expected["SEED"], expected["TRAIN"]["OPTIM"]["LR"]) == (7, 3e-3)
    assert expected["MODEL"][key] != value
    expected["MODEL"][key] = value
    assert load_workflow(CONFIG, overrides).preset(name).model_dump() == expected


def test_derived_presets_train_on_the_same_data(presets):
    workflow = DeblurringWorkflow(load_workflow(CONFIG))
    for variant in ABLATION.variants:
        assert workflow.dataset(f"spiky{variant.suffix}") == workflow.dataset("spiky")


def test_derived_presets_have_names_but_are_no_presets_of_the_folder(presets):
    workflow = load_workflow(CONFIG)
    assert list(workflow.presets) == ["plain", "short", "spiky"]
    assert len(workflow.names) == 9
    assert {"spiky", "spiky-without-spikes", "spiky-shuffled-spikes"} < set(workflow.names)
    with pytest.raises(ConfigError, match="PRESETS names 'spiky-without-spikes'"):
        load_workflow(CONFIG, {"PRESETS": ["spiky-without-spikes"]})


@pytest.mark.parametrize("name", ["nosuch-without-spikes", "spiky-without", "-without-spikes"])
def test_unknown_names_are_refused_with_the_presets_of_the_folder(presets, name):
    with pytest.raises(ConfigError, match=f"no preset '{name}'; there are: plain, short, spiky$"):
        load_workflow(CONFIG).preset(name)


def test_a_preset_without_spikes_has_nothing_to_compare(presets):
    with pytest.raises(ConfigError, match=r"preset plain: MODEL.USE_SPIKE is false; an ablation"):
        load_workflow(CONFIG).preset("plain-shuffled-spikes")
    shuffled = {"SET": "MODEL.SPIKE_ORDER=shuffled DATA.CLIP_LEN=3"}
    with pytest.raises(
        ConfigError, match=r'preset short: MODEL.SPIKE_ORDER is "shuffled"; an ablation'
    ):
        load_workflow(CONFIG, shuffled).preset("short-without-spikes")


def test_too_short_clips_are_refused_for_shuffled_spikes_only(presets):
    assert not load_workflow(CONFIG).preset("short-without-spikes").MODEL.USE_SPIKE
    message = r"preset short has no ablation with shuffled spikes: .*DATA.CLIP_LEN is 1; expected 3"
    with pytest.raises(ConfigError, match=message):
        load_workflow(CONFIG).preset("short-shuffled-spikes")


@pytest.mark.parametrize("variant", ABLATION.variants, ids=lambda variant: variant.label)
def test_a_file_of_a_derived_name_is_refused(presets, variant):
    (presets / f"other{variant.suffix}.yaml").write_text("")  # of no other preset
    load_workflow(CONFIG)
    (presets / f"spiky{variant.suffix}.yaml").write_text("")
    with pytest.raises(ConfigError, match=rf"spiky{variant.suffix}\.yaml: .* rename the file"):
        load_workflow(CONFIG)
