"""Values just inside and just outside of what a key takes, and the order of layers.

Plain limits stand in config/schema.json, which a test compares with the schema.
"""

from __future__ import annotations

import pytest

from vrtspike.config import load_preset
from vrtspike.config.loading import build_settings
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.system.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("DATA.NUM_VOXEL_BINS", 255, 256),
        ("TRAIN.OPTIM.LR", 1, ".inf"),
        ("TRAIN.OPTIM.BETAS", "[0, 0]", "[0.9, 1.0]"),
        ("DATA.NORM", "{MEAN: 0, STD: 0.1}", "{MEAN: 0}"),
        ("DATALOADER.TOTAL_WORKERS", "cpu*1", "cpu*1.1"),
        ("DATALOADER.TOTAL_WORKERS", "cpu*.5", "cpu*2"),
        ("LOG.PROFILE_STEPS", "[20, 20]", "[20, 19]"),
        ("TEST.TILE.SIZE", 0, -8),  # 0: whole frames, whatever OVERLAP is
        ("TEST.TILE.OVERLAP", 128, 130),  # at most half of 256
        ("LOSS.CHARBONNIER.WEIGHT", 0.1, 0),  # the only term
    ],
)
def test_limits_beyond_the_json_schema(name: str, inside: object, outside: object) -> None:
    build_settings(parse_overrides([f"{name}={inside}"]))
    with pytest.raises(ConfigError, match=name.partition(".")[0]):
        build_settings(parse_overrides([f"{name}={outside}"]))


def test_the_nearest_of_several_parents_wins(tmp_path) -> None:
    texts = {
        "old": "SEED: 1\nTRAIN: {EPOCHS: 1, BATCH_SIZE: 1, OPTIM: {LR: 0.1, BETAS: [0.1, 0.2]}}\n",
        "middle": "BASE: old\nSEED: 2\nTRAIN: {EPOCHS: 2, OPTIM: {BETAS: [0.3, 0.4]}}\n",
        "young": "BASE: middle\nSEED: 3\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    settings = load_preset(tmp_path / "young.yaml", ["TRAIN.BATCH_SIZE=4", "TRAIN.BATCH_SIZE=5"])
    train = settings.TRAIN
    assert (settings.SEED, train.EPOCHS, train.BATCH_SIZE) == (3, 2, 5)
    # Lists are replaced, not merged.
    assert (train.OPTIM.LR, train.OPTIM.BETAS) == (0.1, (0.3, 0.4))


def test_later_layers_of_the_workflow_win(configured) -> None:
    folder = configured(
        one="SEED: 1\nDATA: {NUM_VOXEL_BINS: 16}\n",
        config="PRESETS: [one]\nDATA: {ROOT: a, NUM_VOXEL_BINS: 24}\n"
        "SETTINGS: {SEED: 2, DATA: {CLIP_LEN: 4}}\n",
    )
    (folder / "over.yaml").write_text("SETTINGS: {SEED: 3}\nGPUS: 2\n")

    def data(*files: str, **overrides: object) -> DeblurringSettings:
        return load_workflow_config(files, overrides).presets["one"]

    assert data("config.yaml").SEED == 2
    assert data("config.yaml", "over.yaml").SEED == 3
    assert data("over.yaml", "config.yaml").SEED == 2
    settings = data("config.yaml", "over.yaml", SETTINGS={"SEED": 4}, SET="DATA.CLIP_LEN=5")
    assert (settings.SEED, settings.DATA.CLIP_LEN) == (4, 5)
    assert data("config.yaml", SETTINGS={"SEED": 4}, SET="SEED=6").SEED == 6
    # DATA of the configuration is beneath presets, SETTINGS above.
    assert (settings.DATA.ROOT, settings.DATA.NUM_VOXEL_BINS) == ("a", 16)
    assert load_workflow_config(["config.yaml", "over.yaml"], {"GPUS": 1}).settings.GPUS == 1
