"""The record of an output folder, and the files that it names."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.restoration.folder_runs import NAMES, pictures, restore
from vrtspike.io.images import write_png
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.system.errors import ConfigError, RunError


def test_frames_of_other_inputs_are_not_mixed(small_run, model, job, whole, tmp_path):
    shutil.copytree(whole[0].output, job.output)
    sequence = small_run.raw / "test" / "b"
    shutil.copytree(sequence, tmp_path / "moved")
    moved = replace(job, frames=tmp_path / "moved/blur", spikes=tmp_path / "moved/spike")
    restore(model, moved)  # the same inputs elsewhere are the same

    def refused(changed: RestoreRequest, words: str, other: TrainedModel = model) -> None:
        with pytest.raises(ConfigError, match=f"{words}.*overwrite"):
            restore(other, changed)

    refused(replace(moved, simulate_spikes=True, spikes=None), "frames restored with other spikes")
    (tmp_path / "moved/config.yaml").write_text("spike_h: 12\nspike_w: 16\n")
    refused(moved, "with other spikes")
    (tmp_path / "moved/config.yaml").unlink()
    refused(job, "with other model", replace(model, weights="others"))
    refused(job, "with other precision", replace(model, precision="bfloat16"))
    spikes = tmp_path / "moved/spike/000003.dat"
    contents = bytearray(spikes.read_bytes())
    contents[len(contents) // 2] ^= 1
    spikes.write_bytes(contents)
    refused(moved, "with other spikes")
    write_png(tmp_path / "moved/blur/000003.png", np.zeros((48, 64, 3), np.uint8))
    refused(moved, "with other blurry frames, spikes")
    (job.output / "restore.json").write_text("{")
    with pytest.raises(RunError, match=r"restore\.json: damaged.*give another folder"):
        restore(model, job)
    (job.output / "restore.json").unlink()
    for overwrite, message in ((False, "restored by something else"), (True, "does not name")):
        with pytest.raises(ConfigError, match=rf"(?s){message}.*give another folder"):
            restore(model, replace(job, overwrite=overwrite))
    assert len(list((job.output / "restored").iterdir())) == 5


def test_overwrite_replaces_only_recorded_results(model, job, whole):
    shutil.copytree(whole[0].output, job.output)
    with pytest.raises(ConfigError, match=r"^tile: found 33"):
        restore(model, replace(job, tile=33, overwrite=True))
    assert len(pictures(job.output / "restored")) == len(NAMES)
    (job.output / "notes.txt").write_text("mine")
    (job.output / "restored" / "000009.png").write_text("mine")
    (job.output / "restored" / "raw").mkdir()
    (job.output / "restored" / "raw" / "000001.png").write_text("mine")
    notes: list[str] = []
    record = restore(model, replace(job, tile=40, overwrite=True), notes.append)
    assert record["tiling"]["size"] == 40
    assert {path.name for path in job.output.iterdir()} == {
        "restored", "restore.json", "notes.txt",
    }  # fmt: skip
    frames = [job.output / "restored" / f"{name}.png" for name in NAMES]
    assert {path.name for path in (job.output / "restored").iterdir()} == {
        *(path.name for path in frames), "000009.png", "raw",
    }  # fmt: skip
    for path in ("notes.txt", "restored/000009.png", "restored/raw/000001.png"):
        assert (job.output / path).read_text() == "mine"
    assert notes[0].startswith(f"warning: {job.output}: files that the record does not name stay")
    for name in ("notes.txt", "restored/000009.png", "restored/raw"):
        assert f"\n  - {name}\n" in notes[0]
    assert record["written"] == [f"restored/{name}.png" for name in NAMES]


def test_earlier_results_stay_in_the_record(model, job, whole):
    shutil.copytree(whole[0].output, job.output)
    record = restore(model, job)
    assert {"restored.mp4", "side_by_side.mp4"} <= set(record["written"])
    (job.output / "restored.mp4").unlink()
    (job.output / "restored.mp4").symlink_to("nowhere")
    restore(model, replace(job, overwrite=True))
    assert {path.name for path in job.output.iterdir()} == {"restored", "restore.json"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_foreign_files_are_not_written_over(model, job, overwrite):
    job.output.mkdir()
    (job.output / "restored.mp4").write_text("mine")
    with pytest.raises(ConfigError, match=r"does not name \(1\):\n  - restored\.mp4\nMove them"):
        restore(model, replace(job, video=True, overwrite=overwrite))
    restore(model, replace(job, overwrite=overwrite))
    assert (job.output / "restored.mp4").read_text() == "mine"
    (job.output / "restore.json").write_text('{"title": "mine"}')
    with pytest.raises(ConfigError, match=r"restore\.json: is not a record of restored frames"):
        restore(model, replace(job, overwrite=overwrite))
    assert (job.output / "restore.json").read_text() == '{"title": "mine"}'


def test_a_record_removes_nothing_but_results(model, job, whole, tmp_path):
    shutil.copytree(whole[0].output, job.output)
    (tmp_path / "precious.png").touch()
    path = job.output / "restore.json"
    record = json.loads(path.read_text())
    record["written"] += ["../precious.png", "restored/../../precious.png", "restore.json/.."]
    path.write_text(json.dumps(record))
    restore(model, replace(job, overwrite=True))
    assert (tmp_path / "precious.png").exists()


def test_records_of_other_versions_are_replaced_and_not_continued(model, job, whole):
    shutil.copytree(whole[0].output, job.output)
    path = job.output / "restore.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 5}))
    with pytest.raises(ConfigError, match=r"with other schema; .*overwrite"):
        restore(model, job)
    notes: list[str] = []
    restore(model, replace(job, overwrite=True), notes.append)
    assert notes == []
    assert not (job.output / "restored.mp4").exists()


def test_integers_of_numpy_are_recorded_as_those_of_python(model, job):
    record = restore(model, replace(job, tile=np.int64(32), sensor=(np.int64(24), np.int64(32))))
    assert record == json.loads((job.output / "restore.json").read_text())
    assert record["tiling"]["size"] == 32
    assert record["spikes"]["sensor"] == [24, 32]


def test_a_record_that_cannot_be_written_costs_no_earlier_results(model, job, whole):
    shutil.copytree(whole[0].output, job.output)
    before = {path: path.read_bytes() for path in job.output.rglob("*") if path.is_file()}
    with pytest.raises(TypeError, match="not JSON serializable"):
        restore(replace(model, precision=object()), replace(job, overwrite=True))
    after = {path: path.read_bytes() for path in job.output.rglob("*") if path.is_file()}
    assert after == before
