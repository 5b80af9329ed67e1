from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vrtspike.config.workflow import Workflow, workflow_schema
from vrtspike.deblurring.data.manifests import SURVEY
from vrtspike.deblurring.data.raw.versions import RawState, source_version
from vrtspike.deblurring.planning.raw_data import MISSING, RawData, frames_version
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.videos import Videos
from vrtspike.errors import ConfigError
from vrtspike.files import write_json


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """Two sequences; only names count."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "raw"
    for split, name in (("train", "a"), ("test", "b")):
        for kind in ("blur", "sharp"):
            for frame in ("000001.png", "000002.png"):
                path = folder / split / name / kind / frame
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("picture")
    return folder


def plan_of(root: str, **model) -> Videos:
    settings = Settings.model_validate({"DATA": {"ROOT": root}, "MODEL": model})
    workflow = {"DEMO": {"ROOT": "made"}, "SIMULATE": {"ROOT": "simulated", "SEQUENCES": SOURCES}}
    return Videos(Workflow(workflow_schema().model_validate(workflow), {"p": settings}))


SOURCES = [{"FRAMES": "f", "SPLIT": "train", "SEQUENCE": "s"}]


def asked(plan: Workflow, dry: bool = True) -> tuple[RawData, list[str]]:
    notices: list[str] = []
    return RawData(plan, lambda: dry, notices.append), notices


def test_a_data_set_is_looked_at_once(root):
    plan = plan_of(str(root))
    data, notices = asked(plan)
    dataset = plan.dataset("p")
    found = data.found(dataset)
    shutil.copytree(root / "train/a", root / "train/c")
    assert data.found(dataset) == found
    assert asked(plan)[0].found(dataset) != found
    assert notices == []


def test_without_data_a_notice_says_what_to_do(tmp_path):
    plan = plan_of(str(tmp_path / "none"))
    data, notices = asked(plan)
    assert data.found(plan.dataset("p")) is None
    (notice,) = notices
    assert "Set DATA.ROOT" in notice
    assert "make demo" in notice


@pytest.mark.parametrize("dry", [True, False])
def test_faults_of_names_are_told_when_nothing_runs(root, dry):
    shutil.rmtree(root / "train/a/blur")
    shutil.copytree(root / "test/b", root / "train/c")
    plan = plan_of(str(root))
    data, notices = asked(plan, dry)
    assert [s["name"] for s in data.survey(plan.dataset("p"))["sequences"]] == ["c", "b"]
    assert len(notices) == dry
    if dry:
        assert "train/a: no blurry frames" in notices[0]
        assert "stops before computing" in notices[0]


def test_generated_data_are_made_before(root):
    data, _ = asked(plan_of("made"))
    assert data.generated_before(plan_of("made").dataset("p")) == ["made/sources.txt"]
    simulated = plan_of("simulated").dataset("p")
    assert data.generated_before(simulated) == ["simulated/sources/train/s.txt"]
    assert data.generated_before(plan_of(str(root)).dataset("p")) == []


def test_of_generated_data_only_what_was_set_aside_is_looked_at_again(root, tmp_path):
    shutil.copytree(root, tmp_path / "made")
    plan = plan_of("made")
    dataset = plan.dataset("p")
    assert asked(plan)[0].found(dataset) is None
    path = tmp_path / "results/data/made/survey.json"
    contents = {"schema": SURVEY.schema, "root": "made", "layout": "x", "spikes": False}
    write_json(path, {**contents, "sequences": [], "excluded": {}})
    assert asked(plan)[0].found(dataset) is None
    write_json(path, {**contents, "sequences": [], "excluded": {"train/a": ["no blurry frames"]}})
    before = asked(plan)[0].found(dataset)
    assert before is not None
    shutil.rmtree(tmp_path / "made/test/b/blur")
    shutil.copytree(root / "test/b", tmp_path / "made/test/c")
    assert asked(plan)[0].found(dataset) != before


def states(plan: Workflow, **options) -> dict[str, RawState] | None:
    return RawData(plan, lambda: True, print, **options).states(plan.dataset("p"))


def test_the_state_of_raw_files_changes_with_them(root):
    plan = plan_of(str(root))
    before = states(plan)
    assert before is not None
    assert sorted(before) == ["test/b", "train/a"]
    assert before["train/a"].nbytes == 4 * len("picture")
    assert states(plan) == before
    assert before["train/a"].version == source_version(root, "a", "train", root / "none.json")
    (root / "train/a/sharp/000002.png").write_text("another")
    after = states(plan)
    assert after is not None
    assert after["train/a"].version != before["train/a"].version
    assert after["test/b"] == before["test/b"]


def test_faulty_sequences_and_those_of_no_data_have_no_state(root, tmp_path):
    shutil.copytree(root / "train/a", root / "train/c")
    shutil.rmtree(root / "train/c/blur")
    found = states(plan_of(str(root)))
    assert found is not None
    assert sorted(found) == ["test/b", "train/a"]
    assert states(plan_of(str(tmp_path / "none"))) is None
    assert states(plan_of(str(root)), measures=False) is None


def test_of_generated_data_the_survey_says_which_sequences(root, tmp_path):
    shutil.copytree(root, tmp_path / "made")
    plan = plan_of("made")
    assert states(plan) is None
    found = [{"split": "train", "name": name, "frames": 2} for name in ("a", "gone")]
    survey = {**dict.fromkeys(SURVEY.keys), "schema": SURVEY.schema, "sequences": found}
    write_json(tmp_path / "results/data/made/survey.json", survey)
    now = states(plan)
    assert now is not None
    assert now["train/a"].version == source_version("made", "a", "train", "none.json")
    assert now["train/gone"] == (MISSING, 0)


def test_versions_of_frames_change_with_them(root):
    folder = root / "train/a/blur"
    before = frames_version(str(folder))
    (folder / "000001.png").write_text("pictura")
    assert frames_version(str(folder)) != before
    assert frames_version(str(folder / "none")) == MISSING


def test_a_preset_with_spikes_is_refused_where_names_show_none(root):
    plan = plan_of(str(root))
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        asked(plan)[0].require_spikes("p", plan.preset("p"))
    plain = plan_of(str(root), USE_SPIKE=False)
    asked(plain)[0].require_spikes("p", plain.preset("p"))
