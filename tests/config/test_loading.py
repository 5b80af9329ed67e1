"""Presets: parents, overrides, older spellings and errors that name the line."""

from __future__ import annotations

import importlib.util
import re
import sys
import textwrap

import pytest
from ruamel.yaml import YAML

from vrtspike.config import load_preset
from vrtspike.config.loading import require_trainable
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import ConfigError


def load(tmp_path, text, *overrides):
    path = tmp_path / "preset.yaml"
    path.write_text(textwrap.dedent(text))
    return load_preset(path, overrides)


def test_every_shipped_preset_loads(repository):
    paths = list((repository / "config/presets").glob("*.yaml"))
    assert paths
    for path in paths:
        require_trainable(load_preset(path))
    preset = repository / "config/presets/baseline.yaml"
    settings = load_preset(preset, ["MODEL.VRT_CFG=no/such.yaml"])
    with pytest.raises(ConfigError, match=r"MODEL.VRT_CFG: no such file: no/such.yaml"):
        require_trainable(settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "TRAIN:\n  BATCHSIZE: 2\n",
            r":2: unknown key TRAIN.BATCHSIZE; did you mean TRAIN.BATCH_S",
        ),
        ("BATCH_SIZE: 2\n", r":1: unknown key BATCH_SIZE; did you mean \w+.BATCH_SIZE\?"),
        ("LR: 2\n", r":1: unknown key LR; did you mean TRAIN.OPTIM.LR\?"),
        ("DATA: {FOO: 2}\n", r":1: unknown key DATA.FOO\n"),
        ("TRAIN:\n  OPTIM:\n    LR: fast\n", r":3: TRAIN.OPTIM.LR: found 'fast'; .* number"),
        ("TRAIN:\n  EPOCHS: 0\n", r":2: TRAIN.EPOCHS: found 0; .* greater than or equal to 1"),
        (
            "TRAIN:\n  EPOCHS: null\n",
            r":2: TRAIN.EPOCHS: found null, and TRAIN.MAX_STEPS is null, too, .* for one of them",
        ),
        (
            "SEED: 1\nTRAIN: {MAX_STEPS: 0}\n",
            r":2: TRAIN.MAX_STEPS is 0, .* no MODEL.PRETRAINED is given; .* name one, or raise",
        ),
        ("TRAIN: {MAX_STEPS: -1}\n", r":1: TRAIN.MAX_STEPS: found -1; .* or equal to 0"),
        (
            "LOG:\n  TENSORBOARD: true\nSEED: 1\nLOG:\n  SAVE_DIR: x\n",
            r"LOG .* line 1 and .* line 4",
        ),
        (
            "DATA: {TEST_SPLIT: train}\n",
            r"DATA.TEST_SPLIT is 'train', the split that is trained on.* DATA.TEST_ON_TRAINING_FR",
        ),
        ("DATA: {CROP_SIZE: 100}\n", r"DATA.CROP_SIZE: found 100; .* multiple of 8"),
        ("SEED: 1\nDATA: {K: many}\n", r":2: DATA.NUM_VOXEL_BINS: found 'many'; .* integer"),
        ("DATA: {NUM_VOXEL_BINS: 8, K: 9}\n", r":1: DATA.K is 9 and DATA.NUM_VOXEL_BINS is 8"),
        ("MODEL: {LAYERS: 3}\n", r"yaml:1: MODEL.LAYERS is 3, expected .* 4 scales.* remove"),
        ("MODEL: {VRT_DEPTHS: [8, 8]}\n", r"found 2 depths"),
        ("MODEL: {NAF: {ENCODER_BLOCKS: []}}", r":1: MODEL.NAF.ENCODER_BLOCKS: .* at least 1 item"),
        ("MODEL: {WINDOW_SIZE: [1, 2]}\n", r":1: MODEL.WINDOW_SIZE: found \[1, 2\]"),
        (
            "MODEL: {WINDOW_SIZE: 0}\n",
            r"^\S*:1: MODEL.WINDOW_SIZE: found 0; input .* equal to 1\n\S*:1: .* a list.*\nEvery",
        ),
        ("DATALOADER: {TOTAL_WORKERS: cpu*2}\n", r"found 'cpu\*2', expected auto"),
        (
            "TRAIN: {PRECISION: '32', AMP_ENABLED: true}\n",
            r"AMP_ENABLED is True and TRAIN.PRECISION is '32'",
        ),
        ("TRAIN: {AMP_OPT_LEVEL: O7}\n", r"AMP_OPT_LEVEL is 'O7', expected one of O0, O1, O2"),
        ("DATA: {NORM: {MEAN: 0.1}}\n", r"give both MEAN and STD"),
        ("BASE: nowhere\n", r":1: BASE is 'nowhere', but there is no preset .*; presets there"),
        ("BASE: [parent]\n", r":1: BASE is \['parent'\], but there is no"),
        ("SEED: 1\nTRAIN:\n", r":2: TRAIN: found None; expected a section with keys; give some"),
        ("TRAIN: {OPTIM: adamw}\n", r":1: TRAIN.OPTIM: found 'adamw'; expected a section"),
        ("TOTAL_WORKERS: 3\nDATALOADER: x\n", r":2: DATALOADER: found 'x'; expected a section"),
        ("SEED: 1\nDATA:\n  ROOT: &a [*a]\n", r"yaml: an alias \(\*\) contains itself"),
        ("SEED: 2020-13-45\n", r"yaml: not YAML: month must be in 1..12"),
        ("SEED: 1\nbase: parent\n", r":2: unknown key base; did you mean BASE\?"),
        ("SEED: [\n", r"not YAML"),
        (
            "TEST: {METRICS: [psnr, pnsr]}\n",
            r":1: TEST.METRICS.1: found 'pnsr'; .* 'psnr_y'",
        ),
        ("SEED: {{seed}}\n", r":1: not YAML: found unhashable key"),
        ("BATCH: &b {B: 1}\nDATA: {<<: *b}\n", r":2: unknown key DATA.B"),
        ("- 1\n", r":1: the top level must be a mapping"),
        (
            "MODEL: {VRT: {NUM_HEADS: 7}, SPIKE_TSA: {HEADS: 5}, FUSE: {HEADS: 9}}",
            r"(?s)VRT.EMBED_DIMS\[0\] is 96, no multiple of VRT.NUM_HEADS, 7.*"
            " of SPIKE_TSA.HEADS, 5.* of FUSE.HEADS, 9",
        ),
        (
            "SEEED: 1\nTRAIN: {EPOCHS: -1}\nDATA: {NUM_VOXEL_BINS: many}\n",
            "(?s)(?=.*preset.yaml:1: )(?=.*preset.yaml:2: ).*preset.yaml:3: ",
        ),
    ],
)
def test_errors_name_place_key_and_what_is_allowed(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, text)


def test_circular_parents_are_refused(tmp_path):
    (tmp_path / "other.yaml").write_text("BASE: preset\n")
    with pytest.raises(ConfigError, match=r"preset.yaml -> other.yaml -> preset.yaml"):
        load(tmp_path, "BASE: other\n")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("LOG: {SAVE_DIR: outputs}", "LOG.SAVE_DIR"),
        ("MODEL: {LAYERS: 4}", "MODEL.LAYERS"),
        ("MODEL: {CHANNELS_PER_SCALE: [96, 96, 96, 96]}", "MODEL.CHANNELS_PER_SCALE"),
        ("MODEL: {FUSE: {TYPE: TemporalCrossAttn}}", "MODEL.FUSE.TYPE"),
        ("TRAIN: {SCHED: {TYPE: cosine}}", "TRAIN.SCHED.TYPE"),
        ("MODEL: {FUSE: {CHUNK_SHAPE: wide}}", "MODEL.FUSE.CHUNK_SHAPE"),
    ],
)
def test_keys_without_effect_are_dropped_with_a_warning(tmp_path, text, name):
    with pytest.warns(DeprecationWarning, match="has no effect") as caught:
        settings = load(tmp_path, f"SEED: 1\n{text}\n")
    (warning,) = caught
    assert f"preset.yaml:2: {name} has no effect: " in str(warning.message)
    assert settings == load(tmp_path, "SEED: 1\n")
    *sections, key = name.split(".")
    tree = settings.model_dump()
    for section in sections:
        tree = tree[section]
    assert key not in tree
    # As the settings of an older run are read.
    contents = RunIdentity("demo", DeblurringSettings(), "dataset.json", "abc").contents()
    contents["settings"] = YAML(typ="safe").load(text)
    assert RunIdentity.parse(contents, tmp_path / "settings.json").settings == DeblurringSettings()


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


@pytest.mark.parametrize(("key", "package"), [("WANDB", "wandb"), ("MLFLOW", "mlflow-skinny")])
def test_a_logger_whose_package_is_missing_is_reported(monkeypatch, key, package):
    settings = DeblurringSettings.model_validate({"LOG": {key: "mine"}})
    result = importlib.util.find_spec
    absent = {package.partition("-")[0]}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in absent else result(name)
    )
    with pytest.raises(ConfigError, match=f"LOG.{key} needs the package {package}, .*pip install"):
        require_trainable(settings)
    # Another one's absence is no matter.
    absent = {"wandb", "mlflow"} - absent
    with pytest.raises(ConfigError, match=r"TRAIN\.EMA: an average of bfloat16 weights"):
        require_trainable(
            DeblurringSettings.model_validate({"TRAIN": {"EMA": 0.9, "PRECISION": "bf16-true"}})
        )
    require_trainable(DeblurringSettings())


def test_the_eight_bit_optimiser_without_its_package_is_refused(monkeypatch):
    settings = DeblurringSettings.model_validate({"TRAIN": {"OPTIM": {"TYPE": "adamw8bit"}}})
    require_trainable(settings)
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    message = "TRAIN.OPTIM.TYPE adamw8bit needs the package bitsandbytes, .*pip install.* adamw,"
    with pytest.raises(ConfigError, match=message):
        require_trainable(settings)
    require_trainable(DeblurringSettings())


def test_nested_aliases_are_refused_at_once(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for number in range(1, 30):
        alias = f"*a{number - 1}"
        lines.append(f"a{number}: &a{number} [{', '.join([alias] * 10)}]")
    with pytest.raises(ConfigError, match=r"preset\.yaml: more than 200000 keys and items"):
        load(tmp_path, "\n".join(lines))


def test_a_rising_rate_is_refused_for_training_only(tmp_path):
    settings = load(tmp_path, "TRAIN: {OPTIM: {LR: 1.0e-5}, SCHED: {MIN_LR: 1.0e-4}}")
    with pytest.raises(ConfigError, match=r"TRAIN.SCHED.MIN_LR is 0.0001, above TRAIN.OPTIM.LR"):
        require_trainable(settings)
    constant = "TRAIN: {OPTIM: {LR: 1.0e-5}, SCHED: {MIN_LR: 1.0e-5}}"
    require_trainable(load(tmp_path, constant))
