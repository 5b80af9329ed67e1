"""Values just inside and just outside of what a key takes, and how layers meet.

Plain limits stand in config/schema.json, which a test compares with the schema.
"""

from __future__ import annotations

import json

import pytest

from vrtspike.config import load_preset
from vrtspike.config.documents import document_of, overlay, parse_overrides, parse_yaml
from vrtspike.config.loading import build_settings
from vrtspike.config.workflow_loading import load_workflow
from vrtspike.settings import Settings
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


@pytest.mark.parametrize(
    ("override", "name", "value"),
    [
        ("TOTAL_WORKERS=3", "DATALOADER.TOTAL_WORKERS", 3),
        ("TRAIN.NUM_WORKERS=3", "DATALOADER.TRAIN_WORKERS", 3),
        ("DATA.TRAIN_CROP_SIZE=64", "DATA.CROP_SIZE", 64),
        ("DATA.K=9", "DATA.NUM_VOXEL_BINS", 9),
        ("DATA.K=null", "DATA.NUM_VOXEL_BINS", 32),  # as in runs of older versions
        ("MODEL.VRT.use_checkpoint_attn=false", "MODEL.VRT.USE_CHECKPOINT_ATTN", False),
        ("MODEL.VRT.use_checkpoint_ffn=false", "MODEL.VRT.USE_CHECKPOINT_FFN", False),
        ("TRAIN.AMP_ENABLED=false", "TRAIN.PRECISION", "32"),
        ("TRAIN.AMP_ENABLED=true", "TRAIN.PRECISION", "mixed"),
        ("TRAIN.AMP_ENABLED=on", "TRAIN.PRECISION", "mixed"),  # a text in YAML 1.2
        ("TRAIN.AMP_OPT_LEVEL=O0", "TRAIN.PRECISION", "32"),
        ("TRAIN.AMP_OPT_LEVEL=O1", "TRAIN.PRECISION", "mixed"),
        ("TRAIN.AMP_OPT_LEVEL=O2", "TRAIN.PRECISION", "bf16-true"),
        ("TRAIN.PRECISION=32", "TRAIN.PRECISION", "32"),
        ("MODEL.VRT_DEPTHS=[8,7,8,8,4,4,4,6]", "MODEL.VRT_DEPTHS", (8, 7, 8, 8, 4, 4, 4, *[6] * 4)),
        ("MODEL.VRT.ATTENTION=fused", "MODEL.VRT.ATTENTION", "sdpa"),
        ("MODEL.VRT.ATTENTION=triton", "MODEL.VRT.ATTENTION", "auto"),
        ("MODEL.WINDOW_SIZE=4", "MODEL.window", (6, 4, 4)),
        ("MODEL.WINDOW_SIZE=[2,3,5]", "MODEL.window", (2, 3, 5)),
    ],
)
def test_other_spellings(override: str, name: str, value: object) -> None:
    assert build_settings(parse_overrides([override])).value(name) == value
    # Also where the key itself says the same, and not where it says something else.
    key, _, old = override.partition("=")
    if not isinstance(value, tuple) and old != "null":
        text = str(value).lower() if isinstance(value, bool) else repr(value)
        build_settings(overlay(parse_overrides([override]), parse_overrides([f"{name}={text}"])))
        with pytest.raises(ConfigError, match=rf"{key.rpartition('.')[2]}"):
            build_settings(parse_overrides([override, f"{name}=other"]))


def test_half_precision_is_off_if_disabled_at_any_level() -> None:
    off = parse_overrides(["TRAIN.AMP_ENABLED=off", "TRAIN.AMP_OPT_LEVEL=O2"])
    assert build_settings(off).TRAIN.PRECISION == "32"


@pytest.mark.parametrize(
    ("lower", "upper", "merged"),
    [
        ({"A": {"B": 1, "C": 2}}, {"A": {"B": 3}}, {"A": {"C": 2, "B": 3}}),
        ({"A": {"B": 1}}, {"A": None}, {"A": None}),
        ({"A": None}, {"A": {"B": 1}}, {"A": {"B": 1}}),
        ({"A": {"B": 1}}, {"A": {}}, {"A": {"B": 1}}),
        ({"A": None}, {"A": {}}, {"A": {}}),
        ({"A": [1, 2]}, {"A": [3]}, {"A": [3]}),
    ],
)
def test_sections_are_merged_and_other_values_replaced(lower, upper, merged) -> None:
    assert overlay(document_of(lower, "a"), document_of(upper, "b")).tree == merged


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


def test_every_argument_of_vrt_has_its_key(tmp_path) -> None:
    arguments = {
        "embed_dims": [48] * 7 + [60], "num_heads": 3, "mlp_ratio": 1.5, "mul_attn_ratio": 0.5,
        "drop_path_rate": 0.1, "pa_frames": 2, "deformable_groups": 8, "indep_reconsts": [7],
        "use_checkpoint_attn": False, "use_checkpoint_ffn": False,
    }  # fmt: skip
    sizes = {"depths": [1, 2, 3, 4, 5, 6, 7, 8], "window_size": [2, 4, 8]}
    path = tmp_path / "vrt.yaml"
    path.write_text(json.dumps(arguments | sizes))
    dims = [48] * 7 + [60] * 4
    text = f"MODEL: {{VRT: {{EMBED_DIMS: {dims}}}, VRT_CFG: {path}}}\n"
    model = build_settings(parse_yaml(text, "preset.yaml")).MODEL
    # What the preset says wins over the file.
    result = json.loads(model.VRT.model_dump_json())
    expected = {name.upper(): value for name, value in arguments.items()} | {"EMBED_DIMS": dims}
    assert {name: result[name] for name in expected} == expected
    assert model.VRT_DEPTHS == (1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8)
    assert model.window == (2, 4, 8)


SOUND = [48] * 7 + [60] * 4


def backbone(dims: list[int], **vrt: object) -> Settings:
    sizes = {"VRT_DEPTHS": [1] * 8, "VRT": {"EMBED_DIMS": dims, "NUM_HEADS": 2, **vrt}}
    return Settings.model_validate({"MODEL": sizes})


@pytest.mark.parametrize(
    ("dims", "vrt", "message"),
    [
        *(
            (
                [*SOUND[:late], 96, *SOUND[late + 1 :]],
                {},
                rf"VRT.EMBED_DIMS\[{late}\] is 96 and VRT.EMBED_DIMS\[{early}\] is 48",
            )
            for late, early in ((4, 2), (5, 1), (6, 0))
        ),
        ([*SOUND[:-1], 64], {}, r"\[10\] is 64 and VRT.EMBED_DIMS\[7\] is 60; .* stage 8"),
        (SOUND, {"DEFORMABLE_GROUPS": 5}, "no multiple of VRT.DEFORMABLE_GROUPS, 5"),
        (
            [10] * 7 + [60] * 4,
            {"DEFORMABLE_GROUPS": 5},
            "is 10, no multiple of what stages 1-7 need, 4",
        ),
        (SOUND[:-1], {}, "EMBED_DIMS has 10 entries and VRT_DEPTHS has 11"),
        (SOUND, {"MLP_RATIO": 0.01}, "hidden layer that is not empty"),
        (SOUND, {"INDEP_RECONSTS": [1, 8]}, r"(?s)INDEP_RECONSTS\.0.*equal to 7"),
    ],
)
def test_faults_of_a_backbone_name_the_stage(dims, vrt, message) -> None:
    backbone(SOUND)
    # A network without alignment has no groups.
    backbone(SOUND, PA_FRAMES=0, DEFORMABLE_GROUPS=5)
    with pytest.raises(ValueError, match=message):
        backbone(dims, **vrt)


def test_later_layers_of_the_workflow_win(configured) -> None:
    folder = configured(
        one="SEED: 1\nDATA: {NUM_VOXEL_BINS: 16}\n",
        config="PRESETS: [one]\nDATA: {ROOT: a, NUM_VOXEL_BINS: 24}\n"
        "SETTINGS: {SEED: 2, DATA: {CLIP_LEN: 4}}\n",
    )
    (folder / "over.yaml").write_text("SETTINGS: {SEED: 3}\nGPUS: 2\n")

    def data(*files: str, **overrides: object) -> Settings:
        return load_workflow(files, overrides).presets["one"]

    assert data("config.yaml").SEED == 2
    assert data("config.yaml", "over.yaml").SEED == 3
    assert data("over.yaml", "config.yaml").SEED == 2
    settings = data("config.yaml", "over.yaml", SETTINGS={"SEED": 4}, SET="DATA.CLIP_LEN=5")
    assert (settings.SEED, settings.DATA.CLIP_LEN) == (4, 5)
    assert data("config.yaml", SETTINGS={"SEED": 4}, SET="SEED=6").SEED == 6
    # DATA of the configuration is beneath presets, SETTINGS above.
    assert (settings.DATA.ROOT, settings.DATA.NUM_VOXEL_BINS) == ("a", 16)
    assert load_workflow(["config.yaml", "over.yaml"], {"GPUS": 1}).settings.GPUS == 1
