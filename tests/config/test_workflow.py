"""What to run: layers of config.yaml, data sets and their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.config.fields import Section
from vrtspike.config.loading import load_preset
from vrtspike.config.merging import parse_overrides
from vrtspike.config.workflow import load_workflow, workflow_schema
from vrtspike.deblurring.videos import Videos
from vrtspike.errors import ConfigError
from vrtspike.sst.settings import SSTSettings


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    presets = tmp_path / "config/presets"
    presets.mkdir(parents=True)
    (presets / "plain.yaml").write_text("TRAIN: {BATCH_SIZE: 3}\n")
    (presets / "rooted.yaml").write_text("DATA: {ROOT: data/demo, K: 16}\n")
    (tmp_path / "config.yaml").write_text(
        "DATA: {ROOT: /somewhere/go pro, K: 24}\nPRESETS: [plain]\n"
    )
    return tmp_path


def test_data_of_the_configuration_lies_beneath_presets(folder):
    presets = load_workflow(["config.yaml"]).presets
    assert (presets["plain"].DATA.ROOT, presets["plain"].DATA.K) == ("/somewhere/go pro", 24)
    assert (presets["rooted"].DATA.ROOT, presets["rooted"].DATA.K) == ("data/demo", 16)


def test_settings_and_set_lie_above_presets(folder):
    (folder / "over.yaml").write_text("SETTINGS: {TRAIN: {BATCH_SIZE: 5, EPOCHS: 2}}\n")
    presets = load_workflow(["config.yaml", "over.yaml"], {"SET": "TRAIN.EPOCHS=9 SEED=1"}).presets
    assert presets["plain"].TRAIN.BATCH_SIZE == 5
    assert presets["plain"].TRAIN.EPOCHS == 9
    assert presets["rooted"].SEED == 1


def test_numbers_given_as_text_are_numbers(folder):
    presets = load_workflow(["config.yaml"], {"SETTINGS": {"TRAIN": {"EPOCHS": "4"}}}).presets
    assert presets["plain"].TRAIN.EPOCHS == 4


def test_data_sets_have_names_and_kinds(folder):
    workflow = load_workflow(["config.yaml"])
    assert {name: data.kind for name, data in Videos(workflow).datasets.items()} == {
        "go_pro": "raw",
        "demo": "demo",
    }
    gamma = load_workflow(["config.yaml"], {"SET": "DATA.BLUR_DIR=blur_gamma"})
    assert "go_pro-blur_gamma" in Videos(gamma).datasets


def test_two_sources_of_one_name_are_refused(folder):
    (folder / "config/presets/other.yaml").write_text("DATA: {ROOT: elsewhere/demo}\n")
    with pytest.raises(ConfigError, match=r"would both\s+be called 'demo'"):
        _ = Videos(load_workflow(["config.yaml"])).datasets


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PRESET: [plain]\n", r"over.yaml:1: unknown key PRESET; did you mean PRESETS\?"),
        ("PRESETS: [nosuch]\n", r"over.yaml:1: PRESETS names 'nosuch'; presets in .*: plain, r"),
        ("SETTINGS:\n  TRAIN:\n    EPOCH: 3\n", r"over.yaml:3: unknown key TRAIN.EPOCH; did"),
        ("GPUS: some\n", r"over.yaml:1: GPUS: found 'some'"),
        ("GPUS: 1\nGPUS: 2\n", r"GPUS is given twice, at line 1 and at line 2"),
        ("PRESETS:\n", r"over.yaml:1: PRESETS: found None; expected a list\n"),
        ("SET: TRAIN.EPOCHS\n", r"expected KEY=value"),
    ],
)
def test_errors_name_file_and_line(folder, text, message):
    (folder / "over.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_workflow(["config.yaml", "over.yaml"])


@pytest.mark.parametrize("value", ["plain", "plain rooted", "plain, rooted", ["plain", "rooted"]])
def test_names_of_presets_may_be_given_as_a_text(folder, value):
    names = value if isinstance(value, list) else value.replace(",", " ").split()
    settings = load_workflow(["config.yaml"], {"PRESETS": value, "RETRAIN": value}).settings
    assert settings.PRESETS == settings.RETRAIN == tuple(names)


def test_a_single_value_in_place_of_a_list_is_told_what_a_list_looks_like(folder):
    for key, given, example in [
        ("TEST.METRICS", "psnr", r"\[psnr\]"),
        ("TEST.EVAL_SCALES", "0.5", r"\[0.5\]"),
    ]:
        with pytest.raises(ConfigError, match=rf"SET {key}: .*expected a list, such as {example}"):
            load_workflow(["config.yaml"], {"SET": f"{key}={given}"})


def test_a_preset_that_is_not_finished_disturbs_no_other(folder):
    (folder / "config/presets/draft.yaml").write_text("TRAIN:\n  EPOCH: 3\n")
    (folder / "config/presets/cut.yaml").write_text("TRAIN: {EPOCHS: 3\n")
    plan = load_workflow(["config.yaml"], {"PRESETS": ["draft"]})
    assert list(plan.presets) == ["plain", "rooted"]
    assert plan.folder_names == ["cut", "draft", "plain", "rooted"]
    assert {"draft", "draft-without-spikes", "plain"} <= set(plan.names)
    assert set(Videos(plan).datasets) == {"go_pro", "demo"}
    for name in ("draft", "draft-without-spikes"):
        with pytest.raises(ConfigError, match=r"draft\.yaml:2: unknown key TRAIN\.EPOCH; did"):
            plan.preset(name)
    with pytest.raises(ConfigError, match=r"cut\.yaml.*not YAML"):
        plan.preset("cut")


def test_what_all_presets_have_wrong_is_said_once(folder):
    (folder / "config/presets/draft.yaml").write_text("TRAIN:\n  EPOCH: 3\n")
    with pytest.raises(ConfigError) as error:
        load_workflow(["config.yaml"], {"SET": "SEED=-1"})
    lines = str(error.value).splitlines()
    assert sorted(line.split(":")[0].rpartition("/")[2] for line in lines[:-1]) == [
        "SET SEED",
        "draft.yaml",
    ]
    assert lines[-1].startswith("Every key is explained")


def test_an_error_in_a_command_line_value_names_the_option(folder):
    with pytest.raises(ConfigError, match=r"--config: TRAIN.EPOCHS: found 'abc'"):
        load_workflow(["config.yaml"], {"SETTINGS": {"TRAIN": {"EPOCHS": "abc"}}})


def test_resolving_an_unknown_preset_lists_the_known(folder):
    with pytest.raises(ConfigError, match="no preset 'x'; there are: plain, rooted"):
        load_workflow(["config.yaml"]).preset("x")


def test_keys_laid_over_every_preset_concern_those_that_have_them(folder):
    (folder / "config/presets/sea.yaml").write_text("TASK: sst\n")
    given = {"SET": "DATA.CROP_SIZE=64 DATA.SEQ_LEN=3 TRAIN.EPOCHS=7"}
    plan = load_workflow(["config.yaml"], given)
    sea, video = plan.preset("sea"), Videos(plan).preset("plain")
    assert plan.broken == {}
    assert (sea.DATA.SEQ_LEN, sea.TRAIN.EPOCHS) == (3, 7)
    assert (video.DATA.CROP_SIZE, video.DATA.K, video.TRAIN.EPOCHS) == (64, 24, 7)
    with pytest.raises(ConfigError, match=r"unknown key DATA\.NOSUCH"):
        load_workflow(["config.yaml"], {"SET": "DATA.NOSUCH=1"})


def test_presets_of_another_problem_have_other_data_and_no_ablation(folder):
    (folder / "config/presets/sea.yaml").write_text("TASK: sst\nDATA: {SEQ_LEN: 3}\n")
    (folder / "config/presets/far.yaml").write_text("BASE: sea\nDATA: {LEAD: 6}\n")
    plan = load_workflow(["config.yaml"])
    assert {"sea", "far"} & Videos(plan).presets.keys() == set()
    assert not any(name.startswith(("sea-", "far-")) for name in plan.names)
    ((data, preset),) = plan.prepared.items()
    assert (preset, plan.manifest("far")) == ("far", Path("results/data") / data / "dataset.json")
    assert plan.manifest("sea") == plan.manifest("far")
    with pytest.raises(ConfigError, match="preset sea: TASK is sst; this is for presets of the d"):
        Videos(plan).dataset("sea")
    assert plan.ablated == ["plain", "rooted"]
    with pytest.raises(ConfigError, match="preset sea: TASK is sst, which has no ablation"):
        plan.derived("sea")


def test_older_names_of_one_problem_are_unknown_keys_of_another(folder):
    (folder / "config/presets/sea.yaml").write_text("TASK: sst\nTOTAL_WORKERS: 3\n")
    # The problem is named by the parent alone, and the spike encoder has no layers to ignore.
    (folder / "config/presets/deep.yaml").write_text("BASE: sea\nMODEL: {LAYERS: 4}\n")
    (folder / "config/presets/old.yaml").write_text(
        "MODEL: {LAYERS: 4}\nDATA: {NUM_VOXEL_BINS: 8}\n"
    )
    with pytest.warns(DeprecationWarning, match=r"old\.yaml:1: MODEL\.LAYERS decides nothing"):
        plan = load_workflow(["config.yaml"])
    assert plan.preset("sea").DATALOADER.TOTAL_WORKERS == 3
    assert Videos(plan).preset("old").DATA.K == 8
    assert "deep.yaml:2: unknown key MODEL.LAYERS" in plan.broken["deep"]


def test_older_names_in_the_workflows_data_are_laid_beneath_presets(folder):
    (folder / "config.yaml").write_text("DATA: {NUM_VOXEL_BINS: 12}\nPRESETS: [plain]\n")
    presets = load_workflow(["config.yaml"]).presets
    assert (presets["plain"].DATA.K, presets["rooted"].DATA.K) == (12, 16)


def test_a_task_among_overrides_decides_how_keys_are_spelled(folder):
    path = folder / "config/presets/blank.yaml"
    path.write_text("SEED: 1\n")
    assert load_preset(path, ["DATA.NUM_VOXEL_BINS=8"]).DATA.K == 8
    with pytest.raises(ConfigError, match=r"unknown key DATA\.NUM_VOXEL_BINS"):
        load_preset(path, ["TASK=sst", "DATA.NUM_VOXEL_BINS=8"])


@pytest.mark.parametrize(
    ("key", "video", "sea"),
    [
        ("DATA.NUM_VOXEL_BINS=8", {"DATA.K": 8}, {}),
        ("DATA.TRAIN_CROP_SIZE=64", {"DATA.CROP_SIZE": 64}, {}),
        ("MODEL.LAYERS=4", {}, {}),
        ("MODEL.VRT.DROP_PATH_RATE=0.1", {"MODEL.VRT.DROP_PATH_RATE": 0.1}, {}),
        ("TRAIN.FREEZE_FLOW_STEPS=3", {"TRAIN.FREEZE_FLOW_STEPS": 3}, {}),
        ("TRAIN.DISTILL.TEACHER=t", {"TRAIN.DISTILL.TEACHER": "t"}, {"TRAIN.DISTILL": None}),
        ("MODEL.D_MODEL=32", {}, {"MODEL.D_MODEL": 32}),
        ("TRAIN.AMP_OPT_LEVEL=O0", {"TRAIN.PRECISION": "32"}, {"TRAIN.PRECISION": "32"}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*MODEL.LAYERS decides nothing")
@pytest.mark.parametrize("where", ["SET", "SETTINGS"])
def test_keys_of_one_problem_leave_presets_of_another_alone(folder, key, video, sea, where):
    (folder / "config/presets/sea.yaml").write_text("TASK: sst\n")
    given = key if where == "SET" else parse_overrides([key]).tree
    plan = load_workflow(["config.yaml"], {where: given})
    assert plan.broken == {}
    for preset, expected in (("plain", video), ("sea", sea)):
        settings = plan.preset(preset)
        assert {name: settings.value(name) for name in expected} == expected
    plain = load_workflow(["config.yaml"])
    assert (plan.preset("sea") == plain.preset("sea")) == (not any(sea.values()))


def test_a_task_among_keys_for_all_decides_which_of_them_concern_a_preset(folder):
    (folder / "config/presets/blank.yaml").write_text("SEED: 1\n")
    plan = load_workflow(["config.yaml"], {"SET": "TASK=sst DATA.SEQ_LEN=3 DATA.K=8"})
    assert (plan.preset("blank").TASK, plan.preset("blank").DATA.SEQ_LEN) == ("sst", 3)


def test_names_of_ablations_belong_to_presets_that_have_one(folder):
    presets = folder / "config/presets"
    (presets / "sea.yaml").write_text("TASK: sst\n")
    (presets / "sea-without-spikes.yaml").write_text("BASE: sea\n")
    plan = load_workflow(["config.yaml"], {"RETRAIN": "plain-without-spikes"})
    assert plan.preset("sea-without-spikes").TASK == "sst"
    with pytest.raises(ConfigError, match="RETRAIN names 'sea-shuffled-spikes'"):
        load_workflow(["config.yaml"], {"RETRAIN": "sea-shuffled-spikes"})
    (presets / "sea-without-spikes.yaml").unlink()
    with pytest.raises(ConfigError, match="no preset 'sea-without-spikes'"):
        load_workflow(["config.yaml"]).preset("sea-without-spikes")


def test_problems_may_not_share_sections_of_the_workflow(folder, monkeypatch):
    class Other(Section):
        DEMO: int = 1

    monkeypatch.setattr(SSTSettings, "workflow", Other)
    workflow_schema.cache_clear()
    try:
        with pytest.raises(ConfigError, match="have keys DEMO"):
            load_workflow(["config.yaml"])
    finally:
        workflow_schema.cache_clear()


def test_a_problem_adds_sections_to_the_workflow(folder, monkeypatch):
    class Sea(Section):
        TIDES: int = 1

    monkeypatch.setattr(SSTSettings, "workflow", Sea)
    workflow_schema.cache_clear()
    try:
        settings = load_workflow(["config.yaml"], {"TIDES": 4}).settings
        assert (settings.TIDES, settings.SHARES.SEQUENCES) == (4, 128)
    finally:
        workflow_schema.cache_clear()


@pytest.mark.parametrize(("task", "metric"), [("sst", "psnr"), ("deblurring", "rmse")])
def test_early_stopping_watches_metrics_of_the_problem(folder, task, metric):
    path = folder / "config/presets/stop.yaml"
    path.write_text(f"TASK: {task}\nTRAIN:\n  EARLY_STOPPING:\n    METRIC: {metric}\n")
    with pytest.raises(
        ConfigError, match=rf"stop\.yaml:4: TRAIN\.EARLY.*'{metric}', expected one of m"
    ):
        load_preset(path)
    other = {"sst": "rmse", "deblurring": "psnr"}[task]
    found = load_preset(path, [f"TRAIN.EARLY_STOPPING.METRIC={other}"])
    assert found.TRAIN.EARLY_STOPPING.METRIC == other
