"""The checkpoint that prepares the data of a preset."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vrtspike.config.loading import build_settings
from vrtspike.config.workflow import Workflow
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.config.yaml_documents import document_of
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.prepared_data import checked_files, prepared_data
from vrtspike.settings import Settings
from vrtspike.system.errors import ConfigError

VIDEO = Settings.model_validate({"DATA": {"ROOT": "demo", "NUM_VOXEL_BINS": 8}})
SEA = build_settings(document_of({"TASK": "sst"}, "preset"))


def ask(name: str, *, fault: str = ""):
    """The job of a preset, and the checks that were made."""
    checked = []

    def require_spikes(preset: str, settings: Settings) -> None:
        if fault:
            raise ConfigError(fault)
        checked.append((preset, settings.DATA.NUM_VOXEL_BINS))

    raw_data: Any = SimpleNamespace(
        require_spikes=require_spikes,
        require_sequences_to_hold_out=require_spikes,
        note_own_data=checked.append,
    )
    return prepared_data(name, deblurring(), raw_data, alone=True), checked


def deblurring() -> DeblurringWorkflow:
    presets = {"video": VIDEO, "same": VIDEO, "sea": SEA}
    return DeblurringWorkflow(Workflow(workflow_schema()(), presets))


def test_videos_have_stages_of_their_own_and_are_checked_before():
    data, checked = ask("video")
    assert (data.checkpoint, data.wildcards["bins"]) == ("statistics", 8)
    assert str(data.wildcards["dataset"]).startswith("demo")
    assert checked == [("video", 8), ("video", 8), "video"]
    with pytest.raises(ConfigError, match="no spikes"):
        ask("video", fault="no spikes")


def test_other_data_are_prepared_by_one_job():
    data, checked = ask("sea")
    assert data.checkpoint == "prepare"
    assert list(data.wildcards) == ["prepared"]
    assert str(data.wildcards["prepared"]).startswith("sst")
    assert checked == []


def test_checked_data_of_several_presets_are_listed_once():
    workflow = deblurring()
    raw_data: Any = SimpleNamespace(
        require_spikes=lambda preset, settings: None, folder=lambda dataset: f"data/{dataset.name}"
    )
    files = checked_files(["video", "sea", "same"], workflow, raw_data, alone=True)
    (name,) = workflow.names_of(["video", "sea", "same"])
    assert files == [
        f"data/{name}/alignment.csv",
        f"data/{name}/k8/accepted.json",
        str(workflow.workflow.manifest("sea")),
    ]
