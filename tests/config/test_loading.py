"""Presets: parents, overrides, older spellings and errors that name the line."""

from __future__ import annotations

import re
import textwrap

import pytest

from vrtspike.config import load_preset
from vrtspike.config.loading import check_files
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import ConfigError

SHIPPED = [
    *("baseline", "compact", "demo", "fast", "low_memory", "low_ram", "opt", "reproduce"),
    *("sst", "sst_demo"),
]
NEED_WEIGHTS = ["reproduce"]


def load(tmp_path, text, *overrides):
    path = tmp_path / "preset.yaml"
    path.write_text(textwrap.dedent(text))
    return load_preset(path, overrides)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_preset_loads(repository, name):
    settings = load_preset(repository / "config/presets" / f"{name}.yaml")
    if name not in NEED_WEIGHTS:
        check_files(settings)


def test_full_training_starts_from_published_weights(repository):
    settings = load_preset(
        repository / "config/presets/reproduce.yaml", ["MODEL.VRT.PRETRAINED=no/such.pth"]
    )
    with pytest.raises(ConfigError, match=r"MODEL.VRT.PRETRAINED: no such file: no/such.pth"):
        check_files(settings)
    published = load_preset(repository / "config/presets/reproduce.yaml").MODEL
    assert published.VRT.PRETRAINED == "weights/006_VRT_videodeblurring_GoPro.pth"
    # The model that these weights belong to.
    assert (published.window, published.VRT_DEPTHS) == ((6, 8, 8), (8,) * 7 + (4,) * 4)
    assert published.VRT.EMBED_DIMS == (96,) * 7 + (120,) * 4


def test_shipped_presets_are_the_ones_listed(repository):
    assert sorted(path.stem for path in (repository / "config/presets").glob("*.yaml")) == SHIPPED


def test_a_preset_holds_only_what_differs_from_its_parent(tmp_path):
    (tmp_path / "parent.yaml").write_text("TRAIN: {BATCH_SIZE: 7, OPTIM: {LR: 1e-3}}\n")
    settings = load(tmp_path, "BASE: parent\nTRAIN: {OPTIM: {TYPE: adamw8bit}}\n")
    assert settings.TRAIN.BATCH_SIZE == 7
    assert settings.TRAIN.OPTIM.LR == 1e-3
    assert settings.TRAIN.OPTIM.TYPE == "adamw8bit"


def test_overrides_win_and_are_typed(tmp_path):
    settings = load(
        tmp_path, "TRAIN: {BATCH_SIZE: 1}\n", "TRAIN.BATCH_SIZE=2", "MODEL.USE_SPIKE=false"
    )
    assert settings.TRAIN.BATCH_SIZE == 2
    assert settings.MODEL.USE_SPIKE is False


def test_exponents_are_numbers(tmp_path):
    assert load(tmp_path, "TRAIN: {OPTIM: {LR: 2e-4}}").TRAIN.OPTIM.LR == 2e-4


def test_settings_are_frozen(tmp_path):
    settings = load(tmp_path, "SEED: 1")
    with pytest.raises(ValueError, match="frozen"):
        settings.SEED = 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "TRAIN:\n  BATCHSIZE: 2\n",
            r":2: unknown key TRAIN.BATCHSIZE; did you mean TRAIN.BATCH_S",
        ),
        ("BATCH_SIZE: 2\n", r":1: unknown key BATCH_SIZE; did you mean \w+.BATCH_SIZE\?"),
        ("TRAIN:\n  OPTIM:\n    LR: fast\n", r":3: TRAIN.OPTIM.LR: found 'fast'; .* number"),
        ("TRAIN:\n  EPOCHS: 0\n", r":2: TRAIN.EPOCHS: found 0; .* greater than or equal to 1"),
        (
            "LOG:\n  TENSORBOARD: true\nSEED: 1\nLOG:\n  SAVE_DIR: x\n",
            r"LOG .* line 1 and .* line 4",
        ),
        ("DATA:\n  K: 8\n  K: 9\n", r"DATA.K is given twice, at line 2 and at line 3"),
        ("DATA: {CROP_SIZE: 100}\n", r"DATA.CROP_SIZE: found 100; .* multiple of 8"),
        ("DATA: {K: 8, NUM_VOXEL_BINS: 9}\n", r"DATA.K is 8 and DATA.NUM_VOXEL_BINS is 9"),
        ("DATA: {CROP_SIZE: 64, TRAIN_CROP_SIZE: 128}\n", r"TRAIN_CROP_SIZE is 128"),
        ("MODEL: {LAYERS: 3}\n", r"preset.yaml: MODEL.LAYERS is 3, but .* 4 scales.* remove"),
        ("TRAIN: {SCHED: {TYPE: linear}}\n", r"TRAIN.SCHED.TYPE is 'linear', but .* a cosine"),
        ("MODEL: {FUSE: {TYPE: Sum}}\n", r"MODEL.FUSE.TYPE is 'Sum', but .* attention along time"),
        ("MODEL: {VRT_DEPTHS: [8, 8]}\n", r"found 2 depths"),
        ("MODEL: {WINDOW_SIZE: [1, 2]}\n", r":1: MODEL.WINDOW_SIZE: found \[1, 2\]"),
        ("DATALOADER: {TOTAL_WORKERS: cpu*2}\n", r"found 'cpu\*2', expected auto"),
        ("TRAIN: {PRECISION: '32', AMP_ENABLED: true}\n", r"PRECISION is '32' but AMP_ENABLED"),
        ("TRAIN: {AMP_OPT_LEVEL: O7}\n", r"AMP_OPT_LEVEL is 'O7', expected O0, O1 or O2"),
        ("DATA: {NORM: {MEAN: 0.1}}\n", r"give both MEAN and STD"),
        ("BASE: nowhere\n", r":1: BASE is 'nowhere', but there is no preset .*; presets there"),
        ("BASE: ../presets/baseline\n", r":1: BASE is '../presets/baseline', but there is no"),
        ("BASE: [parent]\n", r":1: BASE is \['parent'\], but there is no"),
        ("SEED: 1\nTRAIN:\n", r":2: TRAIN: found None; expected keys below it, or no such line"),
        ("TRAIN: {OPTIM: adamw}\n", r":1: TRAIN.OPTIM: found 'adamw'; expected keys below it"),
        ("TOTAL_WORKERS: 3\nDATALOADER: x\n", r":2: DATALOADER: found 'x'; expected keys below"),
        ("SEED: 1\nDATA:\n  ROOT: &a [*a]\n", r":3: DATA.ROOT.0 holds itself"),
        ("SEED: 2020-13-45\n", r":1: found '2020-13-45': month must be in 1..12"),
        ("SEED: 1\nbase: parent\n", r":2: unknown key base; did you mean BASE\?"),
        ("Bases: parent\n", r":1: unknown key Bases; did you mean BASE\?"),
        ("SEED: [\n", r"not YAML"),
        ("- 1\n", r":1: the top level must be a mapping"),
    ],
)
def test_errors_name_place_key_and_what_is_allowed(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, text)


def test_all_faults_of_a_file_are_reported_at_once(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "SEEED: 1\nTRAIN: {EPOCHS: -1}\nDATA: {K: many}\n")
    assert len(re.findall(r"preset.yaml:\d: ", str(caught.value))) == 3


def test_a_parent_that_is_missing_is_answered_with_the_nearest_one(tmp_path):
    for name in ("baseline", "opt"):
        (tmp_path / f"{name}.yaml").write_text("SEED: 1\n")
    for name, near in (("base_line", "baseline"), ("opt.yaml", "opt")):
        with pytest.raises(ConfigError, match=rf":1: BASE is .*; did you mean {near}\?"):
            load(tmp_path, f"BASE: {name}\n")


def test_a_circle_of_parents_is_an_error(tmp_path):
    (tmp_path / "other.yaml").write_text("BASE: preset\n")
    with pytest.raises(ConfigError, match=r"preset.yaml -> other.yaml -> preset.yaml"):
        load(tmp_path, "BASE: other\n")


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("AMP_ENABLED: false", "32"),
        ("AMP_ENABLED: off", "32"),
        ("AMP_ENABLED: true", "mixed"),
        ("AMP_ENABLED: true\n  AMP_OPT_LEVEL: O0", "32"),
        ("AMP_OPT_LEVEL: O2", "bf16-true"),
        ("PRECISION: 32", "32"),
    ],
)
def test_older_spellings_of_precision(tmp_path, text, precision):
    (tmp_path / "parent.yaml").write_text("TRAIN: {PRECISION: 16-mixed}\n")
    settings = load(tmp_path, f"BASE: parent\nTRAIN:\n  {text}\n")
    assert settings.TRAIN.PRECISION == precision


def test_other_spellings_of_sizes_and_switches(tmp_path):
    settings = load(
        tmp_path,
        """
        DATA: {TRAIN_CROP_SIZE: 128, K: 16, NUM_VOXEL_BINS: 16}
        MODEL: {VRT: {use_checkpoint_attn: false}, VRT_DEPTHS: [8, 7, 8, 8, 4, 4, 4, 6]}
        """,
    )
    assert settings.DATA.CROP_SIZE == 128
    assert settings.DATA.K == 16
    assert settings.MODEL.VRT.USE_CHECKPOINT_ATTN is False
    assert settings.MODEL.VRT_DEPTHS == (8, 7, 8, 8, 4, 4, 4, 6, 6, 6, 6)


def test_workers_under_train_are_used_with_a_warning(tmp_path):
    with pytest.warns(DeprecationWarning, match=r"DATALOADER.TRAIN_WORKERS"):
        settings = load(tmp_path, "TRAIN: {NUM_WORKERS: 3}")
    assert settings.DATALOADER.TRAIN_WORKERS == 3


def test_workers_under_train_are_ignored_where_dataloader_is_given(tmp_path):
    with pytest.warns(DeprecationWarning, match="ignored"):
        settings = load(tmp_path, "TRAIN: {NUM_WORKERS: 3}\nDATALOADER: {TOTAL_WORKERS: 8}")
    assert settings.DATALOADER.TRAIN_WORKERS == "auto"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("LOG: {SAVE_DIR: outputs}", "LOG.SAVE_DIR"),
        ("MODEL: {LAYERS: 4}", "MODEL.LAYERS"),
        ("MODEL: {CHANNELS_PER_SCALE: [96, 96, 96, 96]}", "MODEL.CHANNELS_PER_SCALE"),
        ("MODEL: {FUSE: {TYPE: TemporalCrossAttn}}", "MODEL.FUSE.TYPE"),
        ("TRAIN: {SCHED: {TYPE: cosine}}", "TRAIN.SCHED.TYPE"),
    ],
)
def test_keys_that_decide_nothing_are_read_with_a_warning_and_kept_nowhere(tmp_path, text, name):
    with pytest.warns(DeprecationWarning, match="decides nothing") as caught:
        settings = load(tmp_path, f"SEED: 1\n{text}\n")
    (warning,) = caught
    assert f"preset.yaml:2: {name} decides nothing and is ignored: " in str(warning.message)
    assert settings == load(tmp_path, "SEED: 1\n")
    *sections, key = name.split(".")
    tree = settings.model_dump()
    for section in sections:
        tree = tree[section]
    assert key not in tree


def test_the_reader_of_older_files_is_read_as_another_with_a_warning(tmp_path):
    message = r"preset.yaml:2: DATA.READER is mapped, an old value; it is read as tensorstore"
    with pytest.warns(DeprecationWarning, match=message):
        settings = load(tmp_path, "DATA:\n  READER: mapped\n")
    assert settings.DATA.READER == "tensorstore"
    with pytest.warns(DeprecationWarning, match="DATA.READER is mapped"):
        settings = load(tmp_path, "SEED: 1\n", "DATA.READER=mapped")
    assert settings.DATA.READER == "tensorstore"
    # As the settings of an older run are read.
    with pytest.warns(DeprecationWarning, match="DATA.READER is mapped"):
        settings = Settings.model_validate({"DATA": {"READER": "mapped"}})
    assert settings.DATA.READER == "tensorstore"
    with pytest.raises(
        ConfigError, match=r"DATA.READER: found 'maped'; .* 'tensorstore' or 'zarr'"
    ):
        load(tmp_path, "DATA: {READER: maped}\n")


def test_sizes_that_do_not_go_together_are_named_in_one_go(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "MODEL: {VRT: {NUM_HEADS: 7}, SPIKE_TSA: {HEADS: 5}, FUSE: {HEADS: 9}}")
    for fault in (
        "VRT.EMBED_DIMS[0] is 96, no multiple of VRT.NUM_HEADS, 7",
        "SPIKE_TSA.HEADS is 5, which does not divide 96",
        "FUSE.HEADS is 9, which does not divide 96",
    ):
        assert fault in str(caught.value)


def test_vrt_arguments_are_read_beneath_the_preset(tmp_path):
    arguments = tmp_path / "vrt.yaml"
    arguments.write_text("num_heads: 3\ndrop_path_rate: 0.1\nwindow_size: [6, 8, 8]\n")
    settings = load(tmp_path, f"MODEL:\n  VRT_CFG: {arguments}\n  VRT: {{DROP_PATH_RATE: 0.3}}\n")
    assert settings.MODEL.VRT.NUM_HEADS == 3
    assert settings.MODEL.VRT.DROP_PATH_RATE == 0.3
    assert settings.MODEL.window == (6, 8, 8)


def test_a_missing_vrt_file_is_refused_before_a_run(tmp_path):
    settings = load(tmp_path, "MODEL: {VRT_CFG: no/such.yaml}")
    with pytest.raises(ConfigError, match=r"MODEL.VRT_CFG: no such file: no/such.yaml"):
        check_files(settings)


@pytest.mark.shared
def test_every_yaml_block_of_the_seed_documents(shared, tmp_path):
    blocks, refused = 0, []
    for document in sorted((shared / "seeds").glob("*.txt")):
        for block in re.finditer(r"^( *)```yaml\n(.*?)^ *```", document.read_text(), re.S | re.M):
            blocks += 1
            try:
                load(tmp_path, block.group(2))
            except ConfigError as error:
                refused.append(str(error))
    assert blocks == 31
    assert len(refused) == 1
    assert re.search(r"key LOG is given twice, at line 1 and at line 8", refused[0])
