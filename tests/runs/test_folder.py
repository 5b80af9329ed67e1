from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vrtspike.config import Settings
from vrtspike.data.manifests import DATASET
from vrtspike.errors import ConfigError, DataError, RunError
from vrtspike.files import write_json
from vrtspike.runs.folder import ResolvedRun, RunRecord, hold_run, resolve_run

HOLD = """
import sys
from pathlib import Path
from vrtspike.runs.folder import hold_run
with hold_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_is_held_by_one_process_and_freed_by_its_death(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "held\n"
    notes: list[str] = []
    refused = pytest.raises(RunError, match=f"process {holder.pid} on .* is training")
    with refused, hold_run(tmp_path, patience_s=0.3, note=notes.append):
        pass
    assert len(notes) == 1
    assert f"waiting for process {holder.pid}" in notes[0]
    holder.kill()
    holder.communicate()
    with hold_run(tmp_path, patience_s=0, note=notes.append):
        pass
    assert len(notes) == 1


def write_dataset(path: Path, statistics: dict[str, float] | None, digest: str = "d") -> None:
    manifest = {
        "schema": DATASET.schema,
        "dataset": "x",
        "bins": 4,
        "blur_dir": "auto",
        "excluded": [],
    }
    write_json(path, {**manifest, "splits": {}, "statistics": statistics, "digest": digest})


def fingerprint_of(tmp_path, settings: Settings, digest: str = "d", code: str = "c") -> str:
    statistics = {"mean": 0.1, "std": 0.2, "count": 3}
    write_dataset(tmp_path / "dataset.json", statistics, digest)
    return resolve_run("x", settings, tmp_path / "dataset.json", code).fingerprint


def test_fingerprint_names_settings_data_and_code_that_decide_the_result(tmp_path):
    def settings(**values) -> Settings:
        return Settings.model_validate(values)

    same = fingerprint_of(tmp_path, settings())
    assert len(same) == 12
    assert same == fingerprint_of(tmp_path, settings(LOG={"TIMING_FILE": False}))
    assert same == fingerprint_of(tmp_path, settings(DATALOADER={"TRAIN_WORKERS": 3}))
    others = {
        fingerprint_of(tmp_path, settings(TRAIN={"OPTIM": {"LR": 1e-3}})),
        fingerprint_of(tmp_path, settings(), digest="e"),
        fingerprint_of(tmp_path, settings(), code="e"),
    }
    assert len(others - {same}) == 3
    with pytest.raises(DataError, match=r"none\.json: No such file.* expected a data set manifest"):
        resolve_run("x", settings(), tmp_path / "none.json", "c")


def test_a_model_with_spikes_is_refused_on_a_data_set_without(tmp_path):
    dataset = tmp_path / "dataset.json"
    write_dataset(dataset, None)
    with pytest.raises(ConfigError, match=r"USE_SPIKE to false.*high_frame_rate") as caught:
        resolve_run("x", Settings(), dataset, "c")
    assert str(dataset) in str(caught.value)
    plain = Settings.model_validate({"MODEL": {"USE_SPIKE": False}})
    assert resolve_run("x", plain, dataset, "c").dataset == str(dataset)
    distill = {"TEACHER": str(tmp_path / "teacher")}
    student = Settings.model_validate(
        {"MODEL": {"USE_SPIKE": False}, "TRAIN": {"DISTILL": distill}}
    )
    write_json(tmp_path / "teacher/settings.json", plain.model_dump(mode="json"))
    resolve_run("x", student, dataset, "c")
    write_json(tmp_path / "teacher/settings.json", Settings().model_dump(mode="json"))
    with pytest.raises(ConfigError, match=r"with TRAIN\.DISTILL\.TEACHER .*teacher: no sequence"):
        resolve_run("x", student, dataset, "c")


def test_settings_of_a_run_are_read_as_written(tmp_path):
    settings = Settings.model_validate({"TRAIN": {"OPTIM": {"LR": 1e-3}}, "SEED": 7})
    run = ResolvedRun("small", settings, "/data/dataset.json", "abc")
    run.write(tmp_path)
    assert ResolvedRun.read(tmp_path) == run
    path = tmp_path / "settings.json"
    contents = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in contents.items() if k != "DATASET"}))
    with pytest.raises(RunError, match="DATASET is missing"):
        ResolvedRun.read(tmp_path)
    contents["SETTINGS"]["TRAIN"]["NOVEL"] = 1
    path.write_text(json.dumps(contents))
    with pytest.raises(RunError, match="another version"):
        ResolvedRun.read(tmp_path)


def test_record_keeps_every_start(tmp_path):
    run = ResolvedRun("small", Settings(), "dataset.json", "abc")
    for step in (0, 40):
        record = RunRecord(tmp_path, enabled=True)
        record.start(run, step, processes=step + 1)
    record.update("finished", 100, metrics={"psnr": 30.0})
    RunRecord(tmp_path, enabled=False).update("failed", 0)
    found = json.loads((tmp_path / "run.json").read_text())
    assert [start["step"] for start in found["starts"]] == [0, 40]
    assert (found["status"], found["step"], found["processes"]) == ("finished", 100, 41)
    assert found["metrics"] == {"psnr": 30.0}
