"""Families of presets: a sweep's values and several seeds."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from vrtspike.config.loading import override_settings
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.config.yaml_documents import document_from_tree, unflatten
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.system.errors import ConfigError

SWEEP = """\
BASE: small
GRID:
  TRAIN.OPTIM.LR: [1.0e-3, 2.0e-3]
  TRAIN.OPTIM.BETAS: [[0.9, 0.9], [0.9, 0.99]]
LIST:
  - {TRAIN.EMA: 0.99, TRAIN.BATCH_SIZE: 2}
  - {}
"""


@pytest.fixture
def folder(configured) -> Path:
    files = {"small": "SEED: 7\n", "plain": "", "sweeps/rates": SWEEP}
    return configured(config="PRESETS: [small]\n", **files) / "config"


def load(**overrides) -> WorkflowConfig:
    return load_workflow_config(["config.yaml"], overrides)


def test_a_grid_gives_all_combinations_and_a_list_its_entries(folder):
    workflow = load(SET="TRAIN.MAX_STEPS=9")
    members = workflow.sweep("rates").members
    result = []
    for name in members:
        settings = workflow.settings_of(name)
        assert name.startswith("rates-")
        assert (settings.SEED, settings.TRAIN.MAX_STEPS) == (7, 9)
        train = settings.TRAIN
        result.append((train.OPTIM.LR, train.OPTIM.BETAS[1], train.EMA, train.BATCH_SIZE))
    preset = load().settings_of("small")
    rest = (preset.TRAIN.EMA, preset.TRAIN.BATCH_SIZE)
    assert result == [
        (1e-3, 0.9, *rest),
        (1e-3, 0.99, *rest),
        (2e-3, 0.9, *rest),
        (2e-3, 0.99, *rest),
        (preset.TRAIN.OPTIM.LR, preset.TRAIN.OPTIM.BETAS[1], 0.99, 2),
        (preset.TRAIN.OPTIM.LR, preset.TRAIN.OPTIM.BETAS[1], *rest),
    ]
    assert set(members) <= set(workflow.trainings)
    assert not set(members) & set(workflow.preset_names)


def test_the_name_of_a_member_does_not_depend_on_others(folder):
    before = list(load().sweep("rates").members)
    (folder / "sweeps/rates.yaml").write_text(SWEEP.replace("[1.0e-3, ", "[5.0e-4, 1.0e-3, "))
    after = list(load().sweep("rates").members)
    assert len(after) == 8
    assert [name for name in after if name in before] == before


def test_members_whose_digests_begin_alike_have_different_names(folder):
    """As some do in thousands."""
    digests = {
        seed: hashlib.sha256(json.dumps({"SEED": seed}).encode()).hexdigest()
        for seed in (3275, 5515, 8)
    }
    assert digests[3275][:6] == digests[5515][:6] == "a43017"
    (folder / "sweeps/grid.yaml").write_text(f"BASE: small\nGRID: {{SEED: {[*digests]}}}\n")
    workflow = load()
    members = workflow.sweep("grid").members
    assert {name: settings.SEED for name, settings in members.items()} == {
        "grid-a43017": 3275,
        f"grid-{digests[5515]}": 5515,
        f"grid-{digests[8][:6]}": 8,
    }
    assert set(members) <= set(workflow.trainings)


@pytest.mark.parametrize(
    "values",
    [
        {"TRAIN.OPTIM.LR": 1e-3},
        {"DATA.K": 16},  # an older name
        {"TRAIN.PRECISION": 32},
        {"TRAIN.OPTIM": {"LR": 1e-3}},
        {"LOG.WANDB": "p", "TRAIN.DISTILL": {"TEACHER": "./t/"}},
    ],
)
def test_members_equal_the_preset_with_overrides(folder, values):
    text = json.dumps({"BASE": "small", "LIST": [values]})
    (folder / "sweeps/one.yaml").write_text(text)
    workflow = load(SET="DATA.CLIP_LEN=4")
    (member,) = workflow.sweep("one").members.values()
    above = document_from_tree(unflatten(values), "one")
    assert member == override_settings(workflow.settings_of("small"), above, "small")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BASE: nosuch\nLIST: [{SEED: 1}]\n", "BASE names 'nosuch'; presets: plain, small"),
        ("BASE: small\nGRID: {TRAIN.OPTIM.RATE: [1]}\n", "unknown key TRAIN.OPTIM.RATE"),
        ("BASE: small\nGRID: {TRAIN.OPTIM.LR: [-1]}\n", "TRAIN.OPTIM.LR"),
        ("BASE: small\nGRID: {SEED: 1}\n", "GRID.SEED: .*list"),
        ("BASE: small\nGRID: {SEED: []}\nLIST: [{SEED: 1}]\n", "GRID.SEED: .* at least 1 item"),
        ("BASE: small\nGRID: {TRAIN.MAX_GRAD_NORM: [1.0, .inf]}\n", "found inf; .* finite"),
        ("BASE: small\nLIST: [{SEED: 2020-01-01}]\n", "SEED: found .*2020.* not a valid JSON"),
        ("BASE: small\nGRIDS: {SEED: [1]}\n", "unknown key GRIDS; did you mean GRID"),
        ("BASE: small\n", "found no values"),
        ("BASE: small\nLIST: [{}, {SEED: 1}, {}]\n", "found {} twice"),
    ],
)
def test_an_invalid_sweep_blocks_only_itself(folder, text, message):
    (folder / "sweeps/wrong.yaml").write_text(text)
    workflow = load()
    assert len(workflow.sweep("rates").members) == 6
    assert list(workflow.sweeps) == ["rates", "wrong"]
    with pytest.raises(ConfigError, match=message) as error:
        workflow.sweep("wrong")
    assert "wrong.yaml" in str(error.value)
    assert any(str(error.value) in notice for notice in workflow.notes)


def test_a_sweep_over_data_asks_for_them(folder):
    (folder / "sweeps/data.yaml").write_text(
        "BASE: small\nGRID: {DATA.BLUR_DIR: [blur, blur_gamma]}\n"
        "LIST: [{DATA.CROP_SIZE: 512}, {DATA.CLIP_LEN: 2}]\n"
    )
    deblurring = DeblurringConfig(load())
    assert {"gopro_spike", "gopro_spike-blur_gamma"} <= set(deblurring.dataset_names)
    assert deblurring.accept_options("small", 32).clip_length == 2


def test_several_seeds_are_presets_that_differ_in_their_seed_alone(folder):
    workflow = load(SET="SEEDS=3")
    assert workflow.seeds("small") == ["small", "small-seed-2", "small-seed-3"]
    assert workflow.seeds("small-seed-2") == ["small-seed-2"]
    assert workflow.seeds("small-seed-2", "small")[1:] == workflow.seeds("small")
    assert set(workflow.presets_with_seeds) == {"small", "plain"}
    reference = workflow.settings_of("small").model_dump()
    for number, name in enumerate(workflow.seeds("small")):
        assert workflow.settings_of(name).model_dump() == reference | {"SEED": 7 + number}
    ablated = workflow.settings_of("small-without-spikes-seed-2")
    assert (ablated.SEED, ablated.MODEL.USE_SPIKE) == (8, False)
    member = next(iter(workflow.sweep("rates").members))
    assert workflow.seeds(member) == [member, f"{member}-seed-2", f"{member}-seed-3"]
    for name in ("small-seed-3", "small-without-spikes-seed-2", f"{member}-seed-3"):
        assert name in workflow.trainings
    with pytest.raises(ConfigError, match="no preset 'small-seed-4'; there are: plain, small"):
        workflow.settings_of("small-seed-4")
    assert load().seeds("small") == ["small"]


KEPT = "BASE: small\nMODEL: {PRETRAINED: general}\nTRAIN: {MAX_STEPS: 0}\n"


def test_untrained_weights_have_one_seed_and_need_no_clips(folder):
    before = DeblurringConfig(load()).accept_options("small", 32)
    clip = "DATA: {CROP_SIZE: 8, CLIP_LEN: 1}\n"
    (folder / "presets/kept.yaml").write_text(KEPT + clip)
    workflow = load(SET="SEEDS=3")
    assert workflow.seeds("kept") == ["kept"]
    assert set(workflow.presets_with_seeds) == {"small", "plain"}
    assert DeblurringConfig(workflow).accept_options("small", 32) == before
    (folder / "presets/kept.yaml").write_text(f"{KEPT}DATA: {{ROOT: data/mine}}\n")
    alone = DeblurringConfig(load()).accept_options("kept", 32)
    assert alone.crop_sizes == {"test": 1, "train": 1}


@pytest.mark.parametrize("name", ["small-seed-2", "small-shuffled-spikes-seed-2"])
def test_a_preset_file_named_like_another_seed_is_refused(folder, name):
    (folder / f"presets/{name}.yaml").write_text("")
    load()
    with pytest.raises(ConfigError, match=rf"{name}\.yaml: .* rename the file"):
        load(SET="SEEDS=2")
