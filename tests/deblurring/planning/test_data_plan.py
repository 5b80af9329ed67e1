"""Checks of presets and their data sets while planning, and data of equal names.

Shards of a data set are tested in test_shards.py.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.deblurring.planning.workflows import RecordedMessages, plan_of, process, workflow_of
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.deblurring.planning.data_plan import DataPlan
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.system.errors import ConfigError

CLASH = r"DATA.SPIKE_SIZE .* would both be called 'go_pro'"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A project with a preset on the folder of config.yaml, and one on the demo's."""
    monkeypatch.chdir(tmp_path)
    presets = tmp_path / "config/presets"
    presets.mkdir(parents=True)
    (presets / "plain.yaml").write_text("TRAIN: {BATCH_SIZE: 3}\n")
    (presets / "rooted.yaml").write_text("DATA: {ROOT: data/demo}\n")
    Path("config.yaml").write_text("DATA: {ROOT: /somewhere/go pro}\nPRESETS: [plain]\n")
    return tmp_path


@pytest.fixture
def other(folder) -> None:
    """A preset with other data of the same name as those of plain."""
    (folder / "config/presets/other.yaml").write_text("DATA: {SPIKE_SIZE: [3, 8]}\n")


def project_plan(overrides: Mapping[str, Any] | None = None, **facts: bool) -> DataPlan:
    """The plan of the project in the working directory."""
    return plan_of(
        DeblurringConfig(load_workflow_config(["config.yaml"], overrides or {})), **facts
    )


def test_a_preset_with_spikes_is_refused_without_spike_files(root):
    config = workflow_of(str(root))
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        plan_of(config).checked_files(["p"])
    elsewhere = root.with_name("root_spike_seq") / "train/a/spike"
    elsewhere.mkdir(parents=True)
    (elsewhere / "1.dat").touch()
    with pytest.raises(ConfigError, match=r"lie in \S+/root_spike_seq: set DATA\.SPIKE_ROOT"):
        plan_of(config).checked_files(["p"])
    plan_of(workflow_of(str(root), USE_SPIKE=False)).checked_files(["p"])


@pytest.mark.parametrize("place", ["raw", "simulated"])
def test_a_single_training_sequence_is_refused_if_some_are_to_be_held_out(root, place):
    fault = rf"preset p, {place}: DATA.VALIDATION is held_out, and a single training sequence"
    with pytest.raises(ConfigError, match=fault):
        plan_of(workflow_of(place, USE_SPIKE=False)).manifest_wildcards("p")
    for other in (
        workflow_of(place, data={"VALIDATION": "test"}, USE_SPIKE=False),
        workflow_of(place, max_steps=0, PRETRAINED="general", USE_SPIKE=False),
    ):
        plan_of(other).manifest_wildcards("p")


@pytest.mark.parametrize(("on_error", "refused"), [("stop", False), ("exclude", True)])
def test_faulty_sequences_count_if_acceptance_stops_at_them(root, on_error, refused):
    (root / "train/c/blur").mkdir(parents=True)
    config = workflow_of("raw", data={"ON_ERROR": on_error}, USE_SPIKE=False)
    expectation = contextlib.nullcontext()
    if refused:
        expectation = pytest.raises(ConfigError, match="a single training sequence")
    with expectation:
        plan_of(config).manifest_wildcards("p")


@pytest.mark.parametrize("place", ["nowhere", "made"])
def test_missing_and_generated_data_are_not_counted(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    assert plan_of(workflow_of(place)).manifest_wildcards("p") == {"dataset": place, "bins": 32}


def test_a_preset_is_checked_before_the_job_of_its_data_set(root):
    (root / "train/a").rename(root / "train/c")
    config = workflow_of(str(root), USE_SPIKE=False)
    with pytest.raises(ConfigError, match="a single training sequence"):
        plan_of(config).manifest_wildcards("p")
    shutil.copytree(root / "train/c", root / "train/d")
    plan = plan_of(config)
    assert plan.manifest_wildcards("p") == {"dataset": "raw", "bins": 32}
    # Files of two presets with the same data are listed once.
    files = plan.checked_files(["p", "p"])
    assert files == ["results/data/raw/alignment.csv", "results/data/raw/k32/accepted.json"]
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        plan_of(workflow_of(str(root))).manifest_wildcards("p")


def test_a_preset_on_generated_data_gives_a_message_if_the_user_has_data(root):
    def messages_of(preset: str, root: str) -> list[str]:
        keys = {"DEMO": {"ROOT": "made"}, "DATA": {"ROOT": root}}
        model = {"USE_SPIKE": False}
        presets = {
            name: DeblurringSettings.model_validate({"DATA": data, "MODEL": model})
            for name, data in (
                ("demo", {"ROOT": "made"}),
                ("mine", {"ROOT": root, "VALIDATION": "test"}),
            )
        }
        config = DeblurringConfig(WorkflowConfig(workflow_schema().model_validate(keys), presets))
        messages = RecordedMessages()
        DataPlan(config, process(is_dry_run=False), messages).manifest_wildcards(preset)
        return [text for text in messages.messages if text.startswith("preset ")]

    (message,) = messages_of("demo", str(root))
    assert "preset demo takes generated data (made, its own DATA.ROOT), not those" in message
    assert f"of config/config.yaml ({root})" in message
    assert messages_of("mine", str(root)) == []
    assert messages_of("demo", "nowhere") == messages_of("demo", "made") == []


@pytest.mark.usefixtures("other")
def test_only_presets_that_a_target_needs_are_compared():
    plan = project_plan()
    plan.checked_files(["rooted", "other"])
    assert plan.data_source("go_pro").spike_size == (3, 8)
    with pytest.raises(ConfigError, match=r"preset plain: data of DATA.SPIKE_SIZE None and, in"):
        plan.checked_files(["plain"])


@pytest.mark.usefixtures("other")
def test_without_a_target_all_presets_are_compared():
    with pytest.raises(ConfigError, match=CLASH):
        project_plan().data_source("go_pro")
    assert project_plan().data_source("demo").root == "data/demo"


@pytest.mark.usefixtures("other")
def test_jobs_of_a_cluster_compare_all_presets():
    with pytest.raises(ConfigError, match=CLASH):
        project_plan(runs_locally=False).checked_files(["plain"])
    project_plan(runs_locally=False).checked_files(["rooted"])


@pytest.mark.parametrize("key", ["RESULTS", "RUNS"])
@pytest.mark.parametrize("folder_of_results", ["", "train", "test/out", "more/train/a/b"])
def test_results_among_the_sequences_are_refused(folder, key, folder_of_results):
    for data_key, roots in (("ROOT", {}), ("SPIKE_ROOT", {"ROOT": "elsewhere"})):
        data = {data_key: str(folder / "raw"), **roots}
        overrides = {"DATA": data, key: str(folder / "raw" / folder_of_results)}
        with pytest.raises(ConfigError, match=rf"^{key} is .*, where .* DATA.{data_key} .*/raw"):
            project_plan(overrides).checked_files(["plain"])
    project_plan(overrides).checked_files(["rooted"])


@pytest.mark.usefixtures("folder")
def test_results_beside_the_splits_are_accepted():
    project_plan({"DATA": {"ROOT": "."}}).checked_files(["plain"])
    overrides = {"DATA": {"ROOT": "raw"}, "RESULTS": "raw/results", "RUNS": "raw/runs"}
    project_plan(overrides).checked_files(["plain"])
