"""Values just inside and just outside of what a key takes, and how layers meet."""

from __future__ import annotations

import textwrap
import warnings

import pytest

from vrtspike.config import load_preset
from vrtspike.config.loading import settings_from
from vrtspike.config.merging import overlay, parse_overrides
from vrtspike.config.reading import parse_yaml
from vrtspike.config.workflow import load_workflow
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.videos import Videos
from vrtspike.errors import ConfigError


def value_of(settings: Settings, name: str) -> object:
    node: object = settings
    for part in name.split("."):
        node = getattr(node, part)
    return node


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("SEED", 0, -1),
        ("DATA.K", 255, 256),
        ("DATA.K", 1, 0),
        ("DATA.CROP_SIZE", 8, 12),
        ("DATA.CACHE_SIZE_GB", 0.0, -0.1),
        ("DATA.THRESHOLD_AUGMENT", 1.0, 1.01),
        ("DATA.THRESHOLD_AUGMENT", 0.0, -0.01),
        ("DATA.NORM", "{MEAN: 0, STD: 0.1}", "{MEAN: 0, STD: 0}"),
        ("DATALOADER.TOTAL_WORKERS", "cpu*1", "cpu*1.1"),
        ("DATALOADER.TOTAL_WORKERS", "cpu*.5", "cpu*2"),
        ("DATALOADER.TRAIN_WORKERS", 0, -1),
        ("DATALOADER.TRAIN_PREFETCH_FACTOR", 1, 0),
        ("MODEL.VRT.DROP_PATH_RATE", 0.0, 1.0),
        ("MODEL.VRT.DROP_PATH_RATE", 0.999, -0.1),
        ("MODEL.VRT.MUL_ATTN_RATIO", 1.0, 1.1),
        ("MODEL.VRT.PA_FRAMES", 2, 4),
        ("TRAIN.EMA", 0.9999, 1.0),
        ("TRAIN.EMA", 0.0, -0.1),
        ("TRAIN.OPTIM.LR", 1e-9, 0),
        ("TRAIN.OPTIM.BETAS", "[0, 1]", "[0.9, 1.1]"),
        ("TRAIN.OPTIM.WEIGHT_DECAY", 0.0, -1e-4),
        ("TRAIN.MAX_GRAD_NORM", 0.1, 0),
        ("TRAIN.MAX_STEPS", 1, 0),
        ("TRAIN.SCHED.WARMUP_STEPS", 0, -1),
        ("TRAIN.FREEZE_FLOW_STEPS", 0, -1),
        ("LOG.PROFILE_STEPS", "[20, 20]", "[20, 19]"),
        ("TEST.TILE.SIZE", 64, 65),
        ("TEST.TILE.OVERLAP", 128, 130),  # at most half of 256
        ("TEST.TILE.OVERLAP", 0, 1),
        ("TEST.METRICS", "[psnr]", "[]"),
        ("TEST.EVAL_SCALES", "[0.5]", "[0]"),
        ("TEST.EVAL_SCALES", "[1, 0.5]", "[]"),
        ("TEST.EVAL_SCALES", "[0.5, 0.50001]", "[0.5, 0.5]"),
        ("TEST.EVAL_SCALES", "[0.5, 0.50001]", "[0.5, 0.5000001]"),
        ("LOSS.CHARBONNIER.WEIGHT", 0.1, 0),  # the only term
        ("LOSS.CHARBONNIER.DELTA", 1e-9, 0),
    ],
)
def test_limits(name: str, inside: object, outside: object) -> None:
    settings_from(parse_overrides([f"{name}={inside}"]))
    with pytest.raises(ConfigError, match=name.partition(".")[0]):
        settings_from(parse_overrides([f"{name}={outside}"]))


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ("TOTAL_WORKERS=3", "DATALOADER.TOTAL_WORKERS", 3),
        ("DATA.TRAIN_CROP_SIZE=64", "DATA.CROP_SIZE", 64),
        ("DATA.NUM_VOXEL_BINS=9", "DATA.K", 9),
        ("MODEL.VRT.use_checkpoint_attn=false", "MODEL.VRT.USE_CHECKPOINT_ATTN", False),
        ("MODEL.VRT.use_checkpoint_ffn=false", "MODEL.VRT.USE_CHECKPOINT_FFN", False),
        ("TRAIN.AMP_ENABLED=false", "TRAIN.PRECISION", "32"),
        ("TRAIN.AMP_ENABLED=true", "TRAIN.PRECISION", "mixed"),
        ("TRAIN.AMP_ENABLED=on", "TRAIN.PRECISION", "mixed"),  # a text in YAML 1.2
        ("TRAIN.AMP_OPT_LEVEL=O0", "TRAIN.PRECISION", "32"),
        ("TRAIN.AMP_OPT_LEVEL=O1", "TRAIN.PRECISION", "mixed"),
        ("TRAIN.AMP_OPT_LEVEL=O2", "TRAIN.PRECISION", "bf16-true"),
        ("MODEL.WINDOW_SIZE=4", "MODEL.window", (6, 4, 4)),
        ("MODEL.WINDOW_SIZE=[2,3,5]", "MODEL.window", (2, 3, 5)),
    ],
)
def test_other_spellings(given: str, name: str, value: object) -> None:
    assert value_of(settings_from(parse_overrides([given])), name) == value
    # Also where the key itself says the same, and not where it says something else.
    key = given.partition("=")[0]
    if name.rpartition(".")[2] != "window":
        text = str(value).lower() if isinstance(value, bool) else repr(value)
        settings_from(overlay(parse_overrides([given]), parse_overrides([f"{name}={text}"])))
        with pytest.raises(ConfigError, match=rf"{key.rpartition('.')[2]}"):
            settings_from(parse_overrides([given, f"{name}=other"]))


def test_half_precision_is_off_where_it_is_switched_off_whatever_its_level() -> None:
    off = parse_overrides(["TRAIN.AMP_ENABLED=off", "TRAIN.AMP_OPT_LEVEL=O2"])
    assert settings_from(off).TRAIN.PRECISION == "32"


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
    arguments = tmp_path / "vrt.yaml"
    arguments.write_text(
        textwrap.dedent(
            """
            embed_dims: [48, 48, 48, 48, 48, 48, 48, 60]
            num_heads: 3
            mlp_ratio: 1.5
            mul_attn_ratio: 0.5
            drop_path_rate: 0.1
            pa_frames: 2
            deformable_groups: 8
            indep_reconsts: [7]
            use_checkpoint_attn: false
            use_checkpoint_ffn: false
            depths: [1, 2, 3, 4, 5, 6, 7, 8]
            window_size: [2, 4, 8]
            """
        )
    )
    text = "MODEL: {VRT: {EMBED_DIMS: "
    document = parse_yaml(f"{text}{[48] * 7 + [60] * 4}}}, VRT_CFG: {arguments}}}\n", "preset.yaml")
    model = settings_from(document).MODEL
    vrt = model.VRT
    # What the preset says wins over the file.
    assert vrt.EMBED_DIMS == (48,) * 7 + (60,) * 4
    assert (vrt.NUM_HEADS, vrt.MLP_RATIO, vrt.MUL_ATTN_RATIO) == (3, 1.5, 0.5)
    assert (vrt.DROP_PATH_RATE, vrt.PA_FRAMES, vrt.DEFORMABLE_GROUPS) == (0.1, 2, 8)
    assert (vrt.INDEP_RECONSTS, vrt.USE_CHECKPOINT_ATTN) == ((7,), False)
    assert vrt.USE_CHECKPOINT_FFN is False
    assert model.VRT_DEPTHS == (1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8)
    assert model.window == (2, 4, 8)


def test_faults_of_a_backbone_each_by_its_stage() -> None:
    widths = {"VRT_DEPTHS": [1] * 8}

    def fault(dims: list[int], **vrt: object) -> str:
        with pytest.raises(ValueError, match="EMBED_DIMS") as caught:
            Settings.model_validate(
                {"MODEL": {**widths, "VRT": {"EMBED_DIMS": dims, "NUM_HEADS": 2, **vrt}}}
            )
        return str(caught.value)

    sound = [48] * 7 + [60] * 4
    Settings.model_validate({"MODEL": {**widths, "VRT": {"EMBED_DIMS": sound, "NUM_HEADS": 2}}})
    for late, early in ((4, 2), (5, 1), (6, 0)):
        other = list(sound)
        other[late] = 96
        message = f"VRT.EMBED_DIMS[{late}] is 96 and VRT.EMBED_DIMS[{early}] is 48"
        assert message in fault(other)
    assert "of stage 8 are [60, 60, 60, 64]" in fault([*sound[:-1], 64])
    assert "no multiple of VRT.DEFORMABLE_GROUPS, 5" in fault(sound, DEFORMABLE_GROUPS=5)
    # A network without alignment has no groups.
    Settings.model_validate(
        {
            "MODEL": {
                **widths,
                "VRT": {
                    "EMBED_DIMS": sound,
                    "NUM_HEADS": 2,
                    "PA_FRAMES": 0,
                    "DEFORMABLE_GROUPS": 5,
                },
            }
        }
    )


def test_what_recomputes_and_in_which_order_to_switch_it_off() -> None:
    def model(attn: bool, ffn: bool) -> tuple[str, ...]:
        switches = {"USE_CHECKPOINT_ATTN": attn, "USE_CHECKPOINT_FFN": ffn}
        return Settings.model_validate({"MODEL": {"VRT": switches}}).MODEL.recomputing

    names = ("MODEL.VRT.USE_CHECKPOINT_FFN", "MODEL.VRT.USE_CHECKPOINT_ATTN")
    assert model(attn=True, ffn=True) == names
    assert model(attn=False, ffn=True) == names[:1]
    assert model(attn=True, ffn=False) == names[1:]
    assert model(attn=False, ffn=False) == ()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets/one.yaml").write_text("SEED: 1\nDATA: {K: 16}\n")
    (tmp_path / "config.yaml").write_text(
        "PRESETS: [one]\nPRESET_DIR: presets\nDATA: {ROOT: a, K: 24}\n"
        "SETTINGS: {SEED: 2, DATA: {CLIP_LEN: 4}}\n"
    )
    (tmp_path / "over.yaml").write_text("SETTINGS: {SEED: 3}\nGPUS: 2\n")
    return tmp_path


def test_later_layers_of_the_workflow_win(folder) -> None:
    def data(*files: str, **overrides: object) -> Settings:
        return load_workflow(files, overrides).presets["one"]

    assert data("config.yaml").SEED == 2
    assert data("config.yaml", "over.yaml").SEED == 3
    assert data("over.yaml", "config.yaml").SEED == 2
    given = data("config.yaml", "over.yaml", SETTINGS={"SEED": 4}, SET="DATA.CLIP_LEN=5")
    assert (given.SEED, given.DATA.CLIP_LEN) == (4, 5)
    assert data("config.yaml", SETTINGS={"SEED": 4}, SET="SEED=5 SEED=6").SEED == 6
    # DATA of the configuration is beneath presets, SETTINGS above.
    assert (given.DATA.ROOT, given.DATA.K) == ("a", 16)
    assert load_workflow(["config.yaml", "over.yaml"], {"GPUS": 1}).settings.GPUS == 1


def test_names_of_data_sets_tell_apart_what_differs(folder) -> None:
    def dataset(**data: object):
        return Videos(load_workflow(["config.yaml"], {"SETTINGS": {"DATA": data}})).dataset("one")

    assert dataset().name == "a"
    assert dataset(ON_ERROR="exclude").name == "a-exclude"
    both = dataset(ON_ERROR="exclude", BLUR_DIR="blur_gamma")
    assert (both.name, both.on_error, both.blur_dir) == (
        "a-blur_gamma-exclude",
        "exclude",
        "blur_gamma",
    )
    given = dataset(TRAIN_SPLIT="x", VAL_SPLIT="y", SPIKE_SIZE=[3, 8], LAYOUT="kair")
    assert (given.train_split, given.val_split) == ("x", "y")
    assert (given.spike_size, given.layout) == ((3, 8), "kair")
    assert dataset(ROOT="data/demo").kind == "demo"
    assert dataset(ROOT="data/simulated").kind == "simulated"
    assert dataset(ROOT="b/Go Pro!").name == "Go_Pro"
    assert dataset().kind == "raw"


def test_retrain_takes_one_or_several_names(folder) -> None:
    def retrain(value: object) -> tuple[str, ...]:
        return load_workflow(["config.yaml"], {"RETRAIN": value}).settings.RETRAIN

    assert retrain("one") == retrain(["one"]) == ("one",)
    assert retrain("one one-without-spikes") == ("one", "one-without-spikes")
    with pytest.raises(ConfigError, match="RETRAIN names 'two'"):
        retrain("two")


def test_no_warning_without_an_old_key() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings_from(parse_overrides(["DATALOADER.TOTAL_WORKERS=2"]))
