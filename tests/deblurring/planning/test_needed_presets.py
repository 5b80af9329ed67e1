"""Presets that targets need, and data of equal names."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.config.workflow_loading import load_workflow
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.needed_presets import NeededPresets
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


def needed_presets(**overrides: object) -> NeededPresets:
    return NeededPresets(DeblurringWorkflow(load_workflow(["config.yaml"], overrides)))


@pytest.mark.usefixtures("other")
def test_only_presets_that_a_target_needs_are_compared():
    needed = needed_presets()
    needed.add("rooted", others_may_differ=True)
    needed.add("other", others_may_differ=True)
    assert needed.preset_with("go_pro") == "other"
    assert needed.data_source("go_pro").spike_size == (3, 8)
    with pytest.raises(ConfigError, match=r"preset plain: data of DATA.SPIKE_SIZE None and, in"):
        needed.add("plain", others_may_differ=True)


@pytest.mark.usefixtures("other")
def test_without_a_target_all_presets_are_compared():
    with pytest.raises(ConfigError, match=CLASH):
        needed_presets().data_source("go_pro")
    assert needed_presets().preset_with("demo") == "rooted"


@pytest.mark.usefixtures("other")
def test_jobs_of_a_cluster_compare_all_presets():
    with pytest.raises(ConfigError, match=CLASH):
        needed_presets().add("plain", others_may_differ=False)
    needed_presets().add("rooted", others_may_differ=False)


@pytest.mark.parametrize("key", ["RESULTS", "RUNS"])
@pytest.mark.parametrize("folder_of_results", ["", "train", "test/out", "more/train/a/b"])
def test_results_among_the_sequences_are_refused(folder, key, folder_of_results):
    for data_key, roots in (("ROOT", {}), ("SPIKE_ROOT", {"ROOT": "elsewhere"})):
        data = {data_key: str(folder / "raw"), **roots}
        overrides = {"DATA": data, key: str(folder / "raw" / folder_of_results)}
        with pytest.raises(ConfigError, match=rf"^{key} is .*, where .* DATA.{data_key} .*/raw"):
            needed_presets(**overrides).add("plain", others_may_differ=True)
    needed_presets(**overrides).add("rooted", others_may_differ=True)


@pytest.mark.usefixtures("folder")
def test_results_beside_the_splits_are_accepted():
    needed_presets(DATA={"ROOT": "."}).add("plain", others_may_differ=True)
    overrides = {"DATA": {"ROOT": "raw"}, "RESULTS": "raw/results", "RUNS": "raw/runs"}
    needed_presets(**overrides).add("plain", others_may_differ=True)
