"""The configuration of the workflow: layers of config.yaml, data sets and their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import create_model

from vrtspike.config.fields import Section
from vrtspike.config.loading import load_preset
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.config.workflow_schema import WorkflowSettings, workflow_schema
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.sst.settings import SSTSettings
from vrtspike.system.errors import ConfigError, UserError


@pytest.fixture
def folder(configured) -> Path:
    return configured(
        plain="TRAIN: {BATCH_SIZE: 3}\n",
        rooted="DATA: {ROOT: data/demo, NUM_VOXEL_BINS: 16}\n",
        config="DATA: {ROOT: /somewhere/go pro, NUM_VOXEL_BINS: 24}\nPRESETS: [plain]\n",
    )


def deblurring(**overrides: object) -> DeblurringConfig:
    return DeblurringConfig(load_workflow_config(["config.yaml"], overrides))


def test_different_datasets_have_different_names(folder):
    kinds = {data.name: data.kind for data in deblurring().data_source_by_preset.values()}
    assert kinds == {"go_pro": "raw", "demo": "demo"}

    def dataset(**data: object):
        return deblurring(SETTINGS={"DATA": data}).data_source("plain")

    both = dataset(ON_ERROR="exclude", BLUR_DIR="blur_gamma", TRAIN_SPLIT="x", TEST_SPLIT="y")
    assert (both.name, both.on_error) == ("go_pro-blur_gamma-exclude", "exclude")
    assert (both.blur_dir, both.train_split, both.test_split) == ("blur_gamma", "x", "y")
    options = dataset(ROOT="b/Go Pro!", SPIKE_SIZE=[3, 8], LAYOUT="kair")
    assert (options.name, options.spike_size, options.layout) == ("Go_Pro", (3, 8), "kair")
    assert dataset(ROOT="data/simulated").kind == "simulated"


SOURCE = (
    "SPIKE_ROOT: /spikes, TRAIN_SPLIT: tr, TEST_SPLIT: te, TEST_ON_TRAINING_FRAMES: true, "
    "BLUR_DIR: blur_gamma, LAYOUT: kair, SPIKE_SIZE: [3, 8]"
)


@pytest.mark.parametrize("root", ["", "ROOT: /somewhere, "], ids=["default root", "root"])
def test_keys_of_a_former_root_do_not_apply_to_another(folder, root):
    (folder / "config.yaml").write_text(f"PRESETS: [plain]\nDATA: {{{root}{SOURCE}}}\n")
    same = "/somewhere" if root else "data/gopro_spike"
    (folder / "config/presets/same.yaml").write_text(f"DATA: {{ROOT: {same}}}\n")
    workflow = load_workflow_config(["config.yaml"])
    for preset in ("plain", "same"):
        assert workflow.settings_of(preset).value("DATA.SPIKE_ROOT") == "/spikes"
        assert workflow.settings_of(preset).value("DATA.BLUR_DIR") == "blur_gamma"
    alone = load_preset(folder / "config/presets/rooted.yaml")
    assert workflow.settings_of("rooted") == alone


@pytest.mark.parametrize(
    ("section", "overrides"),
    [
        ("{}", {"DATA": {"ROOT": "/new"}}),
        ("{}", {"SET": "DATA.ROOT=/new"}),
        ("{}", {"SETTINGS": {"DATA": {"ROOT": "/new"}}}),
        ("SETTINGS: {{{}}}", {"SET": "DATA.ROOT=/new"}),
        ("SETTINGS: {{{}}}", {"SETTINGS": {"DATA": {"ROOT": "/new"}}}),
    ],
)
def test_a_layer_that_names_a_root_drops_what_described_another(folder, section, overrides):
    described = section.format(f"DATA: {{ROOT: /old, {SOURCE}}}")
    (folder / "config.yaml").write_text(f"PRESETS: [plain]\n{described}\n")
    data = (
        load_workflow_config(["config.yaml"], overrides).settings_of("plain").model_dump()["DATA"]
    )
    assert data == load_preset(folder / "config/presets/plain.yaml").model_dump()["DATA"] | {
        "ROOT": "/new"
    }


def test_keys_of_a_parent_without_a_root_are_kept(folder):
    presets = folder / "config/presets"
    (presets / "gamma.yaml").write_text("DATA: {BLUR_DIR: blur_gamma, SPIKE_ROOT: /s}\n")
    (presets / "own.yaml").write_text("BASE: gamma\nDATA: {ROOT: /own}\n")
    (presets / "child.yaml").write_text("BASE: own\nDATA: {SPIKE_SIZE: [3, 8]}\n")
    (presets / "moved.yaml").write_text("BASE: child\nDATA: {ROOT: /moved}\n")
    workflow = load_workflow_config(["config.yaml"])
    assert workflow.settings_of("own").value("DATA.BLUR_DIR") == "blur_gamma"
    assert workflow.settings_of("child").value("DATA.SPIKE_SIZE") == (3, 8)
    assert workflow.settings_of("moved").value("DATA.SPIKE_ROOT") == "/s"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PRESET: [plain]\n", r"over.yaml:1: unknown key PRESET; did you mean PRESETS\?"),
        ("PRESETS: [nosuch]\n", r"over.yaml:1: PRESETS names 'nosuch'; presets in .*: plain, r"),
        ("SETTINGS:\n  TRAIN:\n    EPOCH: 3\n", r"over.yaml:3: unknown key TRAIN.EPOCH; did"),
        ("GPUS: some\n", r"over.yaml:1: GPUS: found 'some'"),
        ("GPUS: 1\nGPUS: 2\n", r"GPUS is given twice, at line 1 and at line 2"),
        ("SET: SEED=1 TRAIN.EMA=0 SEED=2\n", r"SET gives SEED 2 times; keep one"),
        ("SET: SEEDS=1000000\n", r"SET: SEEDS: found 1000000; .* less than or equal to 1000"),
        ("PRESETS: [plain, plain]\n", r"over.yaml:1: PRESETS names 'plain' twice; remove one"),
        ("RETRAIN: plain plain\n", r"over.yaml:1: RETRAIN names 'plain' twice; remove one"),
        ("RESULTS: res{x}\n", r"over.yaml:1: RESULTS: found 'res{x}'; Snakemake reads braces"),
        ("RESULTS: res}x\n", r"over.yaml:1: RESULTS: found 'res}x'; Snakemake reads braces"),
        ("RESULTS: $HOME/r\n", r"over.yaml:1: RESULTS: found '\$HOME/r'; variables are not exp"),
        ("RUNS: ${HOME}/r\n", r"over.yaml:1: RUNS: found '\${HOME}/r'; "),
        ("DEMO: {ROOT: d$X}\n", r"over.yaml:1: DEMO.ROOT: found 'd\$X'; variables are not exp"),
        ("PRESETS:\n", r"over.yaml:1: PRESETS: found None; expected a list, such as \[a, b\]\n"),
        ("SET: TRAIN.EPOCHS\n", r"expected KEY=value"),
        (
            "SET: TEST.METRICS=[psnr, ssim]\n",
            r"SET: found 'ssim\]' in .*if a value contains",
        ),
        (
            "SET: 'LOG.ON_END=\"echo a=1\"'\n",
            r"SET: found 'LOG.ON_END=\"echo' in .*if a value contai",
        ),
        ("SET: {a: 1}\n", r"\Aover.yaml:1: SET: found {'a': 1}; .* string\n.* a list"),
        ("SET: TEST.METRICS=psnr\n", r"SET: TEST.METRICS: found 'psnr'; expected a list, such as"),
        ("SET: BASE=plain\n", r"SET: BASE: found 'plain'; input should be None"),
    ],
)
def test_errors_name_file_and_line(folder, text, message):
    (folder / "over.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_workflow_config(["config.yaml", "over.yaml"])


@pytest.mark.parametrize("value", ["plain", "plain rooted", "plain, rooted", ["plain", "rooted"]])
def test_names_of_presets_may_be_given_as_a_text(folder, value):
    names = value if isinstance(value, list) else value.replace(",", " ").split()
    settings = load_workflow_config(["config.yaml"], {"PRESETS": value, "RETRAIN": value}).settings
    assert settings.PRESETS == settings.RETRAIN == tuple(names)


def test_an_invalid_preset_blocks_no_other(folder):
    (folder / "config/presets/draft.yaml").write_text("TRAIN:\n  EPOCH: 3\n")
    (folder / "config/presets/cut.yaml").write_text("TRAIN: {EPOCHS: 3\n")
    workflow = load_workflow_config(["config.yaml"], {"PRESETS": ["draft"]})
    assert list(workflow.presets) == ["plain", "rooted"]
    assert workflow.preset_names == ["cut", "draft", "plain", "rooted"]
    assert {"draft", "plain"} <= set(workflow.trainings)
    assert DeblurringConfig(workflow).dataset_names == ["go_pro", "demo"]
    assert workflow.presets_with_ablation == workflow.preset_names
    assert workflow.seeds("draft") == ["draft"]
    for ask in (workflow.settings_of, workflow.variant_names):
        with pytest.raises(ConfigError, match=r"draft\.yaml:2: unknown key TRAIN\.EPOCH; did"):
            ask("draft")
    with pytest.raises(ConfigError, match=r"cut\.yaml.*not YAML"):
        workflow.settings_of("cut")


def test_pieces_of_set_are_checked_wherever_they_are_read():
    settings = WorkflowSettings(SET="TEST.METRICS=[psnr, ssim]")
    with pytest.raises(ConfigError, match=r"SET: found 'ssim\]' in .*if a value contains"):
        settings.set_pieces_with(["SEED=1"])


def test_names_of_presets_and_sweeps_can_stand_in_commands(folder):
    (folder / "config/presets/my preset.yaml").write_text("SEED: 1\n")
    (folder / "config/presets/My_preset-1.5.yaml").write_text("SEED: 1\n")
    (folder / "config/sweeps").mkdir()
    (folder / "config/sweeps/a;b.yaml").write_text("BASE: plain\nLIST: [{SEED: 2}]\n")
    workflow = load_workflow_config(["config.yaml"])
    assert "my preset" not in workflow.presets
    assert workflow.settings_of("My_preset-1.5").SEED == 1
    with pytest.raises(ConfigError, match=r"my preset\.yaml: found the name 'my preset', ex"):
        workflow.settings_of("my preset")
    with pytest.raises(ConfigError, match=r"a;b\.yaml: found the name 'a;b', expected .*rename"):
        workflow.sweep("a;b")


def test_a_preset_or_sweep_with_another_suffix_is_reported(folder):
    (folder / "config/presets/mine.yml").write_text("SEED: 1\n")
    (folder / "config/presets/plain.yml").write_text("SEED: 1\n")
    (folder / "config/sweeps").mkdir()
    (folder / "config/sweeps/rates.yml").write_text("BASE: plain\nLIST: [{SEED: 2}]\n")
    workflow = load_workflow_config(["config.yaml"])
    fault = r"mine\.yml: presets and sweeps end with \.yaml; rename it: mv .*mine\.yml .*mine\.yaml"
    with pytest.raises(ConfigError, match=fault):
        workflow.settings_of("mine")
    with pytest.raises(ConfigError, match=r"rates\.yml: presets and sweeps end with"):
        workflow.sweep("rates")
    assert workflow.settings_of("plain").TRAIN.BATCH_SIZE == 3
    assert len(workflow.notes) == 2


def test_a_wrong_override_is_refused_for_the_presets_that_it_concerns(folder):
    for name, text in (("arctic", "TASK: sst\n"), ("sea", "TASK: sst\n"), ("film", "SEED: 1\n")):
        (folder / f"config/presets/{name}.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        load_workflow_config(["config.yaml"], {"SET": "TRAIN.BATCHSIZE=2"})
    first, advice = str(error.value).splitlines()
    assert first == "SET: unknown key TRAIN.BATCHSIZE; did you mean TRAIN.BATCH_SIZE?"
    assert advice.startswith("Every key is explained")
    workflow = load_workflow_config(["config.yaml"], {"SET": "MODEL.D_MODEL=0"})
    assert list(workflow.presets) == ["film", "plain", "rooted"]
    (notice,) = workflow.notes
    assert notice.splitlines()[:2] == [
        "preset arctic, sea cannot be used, others can:",
        "SET: MODEL.D_MODEL: found 0; input should be greater than or equal to 1",
    ]


def test_a_command_line_value_is_a_number_or_an_error_that_names_the_option(folder):
    presets = load_workflow_config(
        ["config.yaml"], {"SETTINGS": {"TRAIN": {"EPOCHS": "4"}}}
    ).presets
    assert presets["plain"].TRAIN.EPOCHS == 4
    with pytest.raises(ConfigError, match=r"--config: TRAIN.EPOCHS: found 'abc'"):
        load_workflow_config(["config.yaml"], {"SETTINGS": {"TRAIN": {"EPOCHS": "abc"}}})


def test_presets_of_another_task_have_other_data_and_no_ablation(folder):
    (folder / "config/presets/sea.yaml").write_text("TASK: sst\nDATA: {SEQ_LEN: 3}\n")
    (folder / "config/presets/far.yaml").write_text("BASE: sea\nDATA: {LEAD: 6}\n")
    workflow = load_workflow_config(["config.yaml"])
    assert {"sea", "far"} & DeblurringConfig(workflow).presets.keys() == set()
    assert not any(name.startswith(("sea-", "far-")) for name in workflow.trainings)
    ((data, preset),) = workflow.preset_by_data_folder.items()
    assert (preset, workflow.manifest("far")) == (
        "far",
        Path("results/data") / data / "dataset.json",
    )
    assert workflow.manifest("sea") == workflow.manifest("far")
    assert [workflow.is_prepared(name) for name in ("sea", "plain")] == [True, False]
    with pytest.raises(ConfigError, match="preset sea: TASK is sst; expected deblurring: n"):
        DeblurringConfig(workflow).data_source("sea")
    assert workflow.presets_with_ablation == ["plain", "rooted"]
    with pytest.raises(ConfigError, match="preset sea: TASK is sst, which has no ablation"):
        workflow.variant_names("sea")
    assert workflow.ablation_trainings(["plain"]) == [
        "plain",
        "plain-without-spikes",
        "plain-shuffled-spikes",
    ]
    with pytest.raises(ConfigError, match="which has no ablation"):
        workflow.ablation_trainings(["plain", "sea"])


def test_files_of_evaluations_and_of_raw_data_are_those_of_the_task(folder):
    (folder / "config/presets/sea.yaml").write_text("TASK: sst\nDATA: {ROOT: downloaded}\n")
    workflow = load_workflow_config(["config.yaml"])
    assert workflow.raw_files("plain") == workflow.evaluation_weights("sea") == []
    with pytest.raises(UserError, match="downloaded"):
        workflow.raw_files("sea")
    (folder / "downloaded").mkdir()
    (folder / "downloaded/a.nc").touch()
    assert workflow.raw_files("sea") == [Path("downloaded/a.nc")]
    text, listed = "TEST.METRICS=[psnr,lpips] WEIGHTS.DIR=w", ["TEST.METRICS=[psnr, lpips]"]
    for pieces in (text, [*listed, "WEIGHTS.DIR=w"]):
        workflow = load_workflow_config(["config.yaml"], {"SET": pieces})
        assert workflow.evaluation_weights("plain") == [Path("w/alexnet-owt-7be5be79.pth")]


def test_older_names_of_the_data_are_read(folder):
    (folder / "config.yaml").write_text("DATA: {K: 12}\nPRESETS: [plain]\n")
    workflow = load_workflow_config(["config.yaml"])
    bins = [workflow.presets[name].DATA.NUM_VOXEL_BINS for name in ("plain", "rooted")]
    assert bins == [12, 16]


@pytest.mark.parametrize(
    ("key", "video", "sea"),
    [
        ("DATA.K=8", {"DATA.NUM_VOXEL_BINS": 8}, {}),
        ("DATA.TRAIN_CROP_SIZE=64", {"DATA.CROP_SIZE": 64}, {}),
        ("MODEL.LAYERS=4", {}, {}),
        ("MODEL.VRT.DROP_PATH_RATE=0.1", {"MODEL.VRT.DROP_PATH_RATE": 0.1}, {}),
        ("TRAIN.FREEZE_FLOW_STEPS=3", {"TRAIN.FREEZE_FLOW_STEPS": 3}, {}),
        ("TRAIN.DISTILL.TEACHER=t", {"TRAIN.DISTILL.TEACHER": "t"}, {}),
        ("MODEL.D_MODEL=32", {}, {"MODEL.D_MODEL": 32}),
        ("TRAIN.AMP_OPT_LEVEL=O0", {"TRAIN.PRECISION": "32"}, {"TRAIN.PRECISION": "32"}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*MODEL.LAYERS has no effect")
@pytest.mark.parametrize("where", ["SET", "SETTINGS"])
def test_keys_of_one_task_do_not_affect_presets_of_another(folder, key, video, sea, where):
    (folder / "config/presets/sea.yaml").write_text("TASK: sst\n")
    overrides = key if where == "SET" else parse_overrides([key]).tree
    workflow = load_workflow_config(["config.yaml"], {where: overrides})
    assert workflow.broken == {}
    for preset, expected in (("plain", video), ("sea", sea)):
        settings = workflow.settings_of(preset)
        assert {name: settings.value(name) for name in expected} == expected
    plain = load_workflow_config(["config.yaml"])
    assert (workflow.settings_of("sea") == plain.settings_of("sea")) == (not any(sea.values()))


def test_a_task_among_the_overrides_selects_the_applicable_keys(folder):
    (folder / "config/presets/blank.yaml").write_text("SEED: 1\n")
    workflow = load_workflow_config(
        ["config.yaml"], {"SET": "TASK=sst DATA.SEQ_LEN=3 DATA.NUM_VOXEL_BINS=8"}
    )
    assert (workflow.settings_of("blank").TASK, workflow.settings_of("blank").DATA.SEQ_LEN) == (
        "sst",
        3,
    )


def test_names_of_ablations_belong_to_presets_that_have_one(folder):
    presets = folder / "config/presets"
    (presets / "sea.yaml").write_text("TASK: sst\n")
    (presets / "sea-without-spikes.yaml").write_text("BASE: sea\n")
    workflow = load_workflow_config(["config.yaml"], {"RETRAIN": "plain-without-spikes"})
    assert workflow.settings_of("sea-without-spikes").TASK == "sst"
    with pytest.raises(ConfigError, match="RETRAIN names 'sea-shuffled-spikes'"):
        load_workflow_config(["config.yaml"], {"RETRAIN": "sea-shuffled-spikes"})
    (presets / "sea-without-spikes.yaml").unlink()
    with pytest.raises(ConfigError, match="no preset 'sea-without-spikes'"):
        load_workflow_config(["config.yaml"]).settings_of("sea-without-spikes")


@pytest.fixture
def tides(monkeypatch):
    """Gives the workflow of another task sections."""

    def add(section: type[Section]) -> None:
        monkeypatch.setattr(SSTSettings, "workflow_section", section)
        workflow_schema.cache_clear()

    yield add
    workflow_schema.cache_clear()


def test_a_task_adds_sections_with_unique_names_to_the_workflow(folder, tides):
    tides(create_model("Sea", __base__=Section, TIDES=(int, 1)))
    settings = load_workflow_config(["config.yaml"], {"TIDES": 4}).settings
    assert (settings.TIDES, settings.SHARDS.SEQUENCES) == (4, 128)
    tides(create_model("Sea", __base__=Section, DEMO=(int, 1)))
    with pytest.raises(ConfigError, match="define the keys DEMO"):
        load_workflow_config(["config.yaml"])


@pytest.mark.parametrize(("task", "metric"), [("sst", "psnr"), ("deblurring", "rmse")])
def test_early_stopping_watches_metrics_of_the_task(folder, task, metric):
    path = folder / "config/presets/stop.yaml"
    path.write_text(f"TASK: {task}\nTRAIN:\n  EARLY_STOPPING:\n    METRIC: {metric}\n")
    with pytest.raises(
        ConfigError, match=rf"stop\.yaml:4: TRAIN\.EARLY.*'{metric}', expected one of m"
    ):
        load_preset(path)
    other = {"sst": "rmse", "deblurring": "psnr"}[task]
    result = load_preset(path, [f"TRAIN.EARLY_STOPPING.METRIC={other}"])
    assert result.TRAIN.EARLY_STOPPING.METRIC == other


def test_the_home_folder_is_read_in_keys_that_are_paths(folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    (folder / "over.yaml").write_text(
        "RESULTS: ~//results/\nDATA: {SPIKE_ROOT: ~/spikes}\nDEMO: {ROOT: ./~}\n"
        "CALIBRATE: {DATA: ~/own}\nSETTINGS: {MODEL: {VRT: {PRETRAINED: ~/vrt.pth}}}\n"
    )
    workflow = load_workflow_config(["config.yaml", "over.yaml"], {"RUNS": "~"})
    result = workflow.settings.model_dump()
    assert (result["RESULTS"], result["RUNS"]) == ("/home/ada/results", "/home/ada")
    assert (result["DEMO"]["ROOT"], result["CALIBRATE"]["DATA"]) == ("~", "/home/ada/own")
    assert workflow.settings_of("plain").value("DATA.SPIKE_ROOT") == "/home/ada/spikes"
    assert workflow.settings_of("plain").value("MODEL.VRT.PRETRAINED") == "/home/ada/vrt.pth"
    with pytest.raises(ConfigError, match="RESULTS: found ~nobody-is-called-so/r, but no"):
        load_workflow_config(["config.yaml"], {"RESULTS": "~nobody-is-called-so/r"})
