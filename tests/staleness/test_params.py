"""Lines that make stages stale: keys, code, manifests and raw files."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.workflow_schema import WorkflowSettings
from vrtspike.data.manifests import ACCEPTED
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import file_digest, write_json
from vrtspike.io.flatten import flat_settings
from vrtspike.io.manifests import file_entry
from vrtspike.runs.identity import result_settings
from vrtspike.sst.settings import SSTSettings
from vrtspike.staleness.params import (
    code_lines,
    data_damage,
    raw_file_lines,
    rerun_damaged,
    setting_lines,
)


def test_a_line_per_key_of_the_jobs_own_preset():
    presets = {
        "slow": DeblurringSettings.model_validate({"TRAIN": {"OPTIM": {"LR": 1e-4}}}),
        "quick": DeblurringSettings.model_validate({"TRAIN": {"OPTIM": {"LR": 3e-3}}}),
    }
    lines = setting_lines(WorkflowConfig(WorkflowSettings(), presets), "train.py")

    def lines_of(preset: str) -> list[str]:
        return lines(SimpleNamespace(preset=preset))

    different = set(lines_of("slow")) ^ set(lines_of("quick"))
    assert different == {"TRAIN.OPTIM.LR: 0.0001", "TRAIN.OPTIM.LR: 0.003"}
    expected = flat_settings(result_settings(presets["slow"]))
    assert lines_of("slow") == [f"{key}: {value}" for key, value in expected.items()]
    assert not any(line.startswith(("LOG.TENSORBOARD", "TEST.")) for line in lines_of("slow"))


def test_programs_that_select_no_settings_are_refused():
    with pytest.raises(KeyError, match="survey"):
        setting_lines(WorkflowConfig(WorkflowSettings(), {}), "survey.py")


@pytest.mark.parametrize("name", ["analyze_performance", "compare", "report_page", "ablation"])
def test_tables_and_pages_do_not_depend_on_the_code_of_voxels(repository, name):
    """The settings name such code by parts of its name, which count as no import."""
    lines = code_lines(repository / "scripts", f"{name}.py")
    files = [line.split(" ")[0] for line in lines]
    assert "vrtspike/deblurring_settings/schema.py" in files
    parts = {file for file in files if "/data/" in file or "/models/" in file}
    # Metrics compare 8-bit images.
    assert parts <= {"vrtspike/data/rgb_images.py"}


@pytest.fixture
def forced(tmp_path) -> Callable[..., list[tuple[str, str]]]:
    """The forced files of a folder, with the reasons."""

    def ask(*arguments: Any, **more: Any) -> list[tuple[str, str]]:
        failures: list[tuple[str, str]] = []

        def note(path: str, reason: str) -> None:
            failures.append((path, reason))

        assert rerun_damaged(tmp_path, note, *arguments, **more)({"name": "a"}) == []
        return failures

    return ask


def test_a_manifest_is_damaged_wherever_it_is_cut(tmp_path, forced):
    path = tmp_path / "a.json"
    contents = {"sequences": ["train/a"], "excluded": {}, "overlaps": {}}
    write_json(path, {"schema": ACCEPTED.schema, **contents})
    assert forced("{name}.json", ACCEPTED) == []
    whole = path.read_bytes()
    damaged = [(str(path), f"{path} is damaged")]
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        assert forced("{name}.json", ACCEPTED) == damaged, length
    write_json(path, {"schema": ACCEPTED.schema + 1, **contents})
    assert forced("{name}.json", ACCEPTED) == damaged


def test_a_missing_file_is_made_again_if_later_results_exist(tmp_path, forced):
    path = str(tmp_path / "a.csv")
    missed = [(path, "no result yet")]
    assert forced("{name}.csv") == missed
    assert forced("{name}.csv", later_results=["{name}/*.json"]) == []
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.json").touch()
    assert forced("{name}.csv", later_results=["{name}/*.json"]) == missed
    (tmp_path / "a.csv").touch()
    assert forced("{name}.csv", later_results=["{name}/*.json"]) == []
    behind = forced("{name}.csv", damage=lambda wildcards: f"{wildcards['name']}: no store")
    assert behind == [(path, "a: no store")]


def test_a_raw_file_of_prepared_data_has_a_line_that_changes_with_its_contents(tmp_path):
    raw = tmp_path / "2001.nc"
    settings = SSTSettings.model_validate({"TASK": "sst", "DATA": {"ROOT": str(tmp_path)}})
    workflow = WorkflowConfig(WorkflowSettings(RESULTS=str(tmp_path / "results")), {"p": settings})
    for contents in ("one", "two"):
        raw.write_text(contents)
        assert raw_file_lines(workflow, "p") == [f"raw file {raw}: {file_digest(raw)[:12]}"]
    # Files that the manifest lists with the same size and date are not read again.
    entry = {**file_entry(tmp_path, raw.name), "digest": "0" * 64}
    write_json(workflow.manifest("p"), {"files": [entry]})
    assert raw_file_lines(workflow, "p") == [f"raw file {raw}: {'0' * 12}"]
    assert data_damage(workflow, "p") == f"{workflow.manifest('p')} is damaged"


def test_data_of_rules_of_their_own_have_no_such_lines():
    assert (
        raw_file_lines(WorkflowConfig(WorkflowSettings(), {"p": DeblurringSettings()}), "p") == []
    )
