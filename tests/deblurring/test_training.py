"""The real objective from end to end: launcher, a training process, a tiny model on tiny data."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.deblurring.tiny_run import SCRIPTS, STEPS, metrics, train_here
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.store.reading import Store
from vrtspike.deblurring.training_parts import build_training_model
from vrtspike.io.files import read_json
from vrtspike.io.images import read_rgb
from vrtspike.models import build_model
from vrtspike.runs.folder import lock_run
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.published import publish
from vrtspike.staleness.training_code import write_code
from vrtspike.training.run import train_preset

BIN_EDGES = (0, 35, 40, 46, 88)
"""First steps of the four bins of an exposure of 88 steps, and its end."""


def test_a_run_publishes_weights_settings_records_and_their_metrics(
    deblurring_project, run_folder, tmp_path
):
    publish(run_folder, tmp_path / "result")
    check_published(tmp_path / "result")
    metrics = json.loads((tmp_path / "result" / "run.json").read_text())["metrics"]
    expected = validated_by_hand(deblurring_project, tmp_path / "result")
    assert metrics["psnr"] == pytest.approx(expected, abs=1e-3)


def validated_by_hand(deblurring_project: Path, folder: Path) -> float:
    """The PSNR of a run's final weights on the two validation clips, from the raw files."""
    settings = RunIdentity.read(folder).settings
    model = build_model(settings).eval()
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    raw = deblurring_project / "raw" / "test" / "three"
    blur, sharp = (
        np.stack([read_rgb(path) for path in sorted((raw / kind).iterdir())])
        for kind in ("blur", "sharp")
    )
    spikes = np.stack([read_spikes(path, 24, 32) for path in sorted((raw / "spike").iterdir())])
    gain = Store(deblurring_project / "k4" / "test" / "three.zarr").gain
    rate = np.stack([spikes[:, a:b].mean(axis=1) for a, b in pairwise(BIN_EDGES)], axis=1)
    statistics = load_dataset(deblurring_project / "k4" / "dataset.json").statistics
    voxels = ((gain * rate - statistics.mean) / statistics.std).repeat(2, axis=2).repeat(2, axis=3)
    # The middle of the frames; the second clip is moved back to end with the sequence.
    blur, sharp = (frames[:, 8:40, 16:48].transpose(0, 3, 1, 2) / 255 for frames in (blur, sharp))
    psnr = []
    for start in (0, 1):
        clip = slice(start, start + 2)
        inputs = (blur[None, clip], voxels[None, clip, :, 8:40, 16:48])
        with torch.no_grad():
            output = model(*(torch.from_numpy(array).float() for array in inputs))[0].numpy()
        error = np.rint(255 * output.clip(0, 1).astype(float)) - 255 * sharp[clip]
        psnr += [10 * np.log10(255**2 / np.mean(frame**2)) for frame in error]
    return float(np.mean(psnr))


@pytest.mark.endurance
def test_changed_code_is_reported_and_retrained_on_request(
    deblurring_project, repository, run_folder, tmp_path
):
    run = RunIdentity.read(run_folder)
    folder = tmp_path / "runs" / "tiny" / run.fingerprint
    shutil.copytree(run_folder, folder)
    code = read_json(folder / "code.json")["files"]
    write_code(folder, code | {"training/loop.py": "of old"})

    def launch(*options: str) -> str:
        command = [
            *(sys.executable, str(repository / "scripts" / "launch_training.py")),
            *(
                "--preset",
                "tiny",
                "--configfile",
                str(deblurring_project / "config.yaml"),
                "--gpus",
                "0",
            ),
            *("--dataset", str(deblurring_project / "k4" / "dataset.json")),
            *(
                "--config",
                f"RUNS={tmp_path / 'runs'}",
                "--output",
                str(tmp_path / "result"),
                *options,
            ),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    output = launch()
    assert "code has changed since this run began: training/loop.py; " in output
    assert "snakemake --cores all train_tiny --config RETRAIN=tiny" in output
    assert "the run was finished before" in output
    assert (tmp_path / "result/weights.safetensors").read_bytes() == (
        run_folder / "weights.safetensors"
    ).read_bytes()

    again = launch("--retrain")
    assert f"the former run is now {folder}.1: training/loop.py" in again
    assert read_json(folder / "code.json")["files"] == code
    assert json.loads((tmp_path / "result/run.json").read_text())["starts"][0]["step"] == 0
    assert json.loads((folder.with_name(f"{folder.name}.1") / "run.json").read_text()) == (
        json.loads((run_folder / "run.json").read_text())
    )

    assert "the run's code has not changed; remove its folder" in launch("--retrain")
    assert len(list(folder.parent.iterdir())) == 2


def test_a_process_that_waits_for_a_running_one_does_not_record_its_code(run_folder, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    shutil.rmtree(folder / "checkpoints")  # the running one has saved nothing yet
    write_code(folder, {"training/loop.py": "of the running one"})
    with lock_run(folder):
        waiting = subprocess.Popen(
            [sys.executable, "-u", str(SCRIPTS / "train.py"), "--run-dir", str(folder)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert waiting.stdout is not None
        assert any("which is training there" in line for line in waiting.stdout)
        waiting.kill()
        waiting.communicate()
    assert read_json(folder / "code.json")["files"] == {"training/loop.py": "of the running one"}


def check_published(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        "weights.safetensors",
        "settings.json",
        "run.json",
        "code.json",
        "statistics.json",
        "metrics.csv",
        "metrics.jsonl",
        "timing.jsonl",
        "memory.jsonl",
        "pictures",
    }
    identity = RunIdentity.read(folder)
    settings = identity.settings
    model = build_model(settings)
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    run = json.loads((folder / "run.json").read_text())
    assert run["status"] == "finished"
    assert len(run["starts"]) == 1
    assert run["parameters"] == sum(p.numel() for p in model.parameters())
    assert settings.TRAIN.MAX_STEPS == STEPS
    assert identity.dataset_digest == load_dataset(identity.dataset).digest
    timings = [json.loads(line) for line in (folder / "timing.jsonl").read_text().splitlines()]
    sections = set().union(*(t["ms"] for t in timings if t["kind"] == "step"))
    assert {
        "step/forward/spike_encoder",
        "step/forward/vrt/stage8",
        "step/loss/charbonnier",
        "validation",
    } <= sections


def test_tensorboard_has_every_step_once_and_pictures(
    deblurring_project, run_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    shutil.copytree(run_folder, tmp_path / "run")
    # As after a crash: two steps are computed again.
    (tmp_path / "run" / "checkpoints" / f"step_{STEPS:08d}.pt").unlink()
    assert train_preset(RunIdentity.read(tmp_path / "run"), tmp_path / "run") == 0
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    for tag in ("loss/charbonnier", "train/loss", "train/lr", "train/samples_per_second"):
        assert [event.step for event in board.Scalars(tag)] == list(range(1, STEPS + 1))
    for tag in ("validation/psnr", "epoch/samples"):
        assert [event.step for event in board.Scalars(tag)] == [4, 8, 12]
    (picture, _, _) = board.Images("restored")
    # Blurry, restored and sharp beside each other.
    assert picture.width >= 3 * 32


def test_progressive_run_distils_from_a_teacher(
    deblurring_project, run_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    publish(run_folder, tmp_path / "teacher")
    phases = "[{CROP_SIZE: 16, EPOCHS: 1}, {CROP_SIZE: 32, EPOCHS: 1}]"
    train_here(
        deblurring_project,
        tmp_path / "run",
        f"TRAIN.PROGRESSIVE={phases}",
        f"TRAIN.DISTILL.TEACHER={tmp_path / 'teacher'}",
        "TRAIN.FREEZE_FLOW_STEPS=2",
        "TRAIN.EMA=0.5",
        "TRAIN.MAX_STEPS=null",
    )
    steps = [r for r in metrics(tmp_path / "run") if r["kind"] == "train"]
    # Four clips are an epoch of four steps, first of small crops, then of large ones.
    assert [r["step"] for r in steps] == list(range(1, 9))
    assert all(r["losses"].keys() == {"charbonnier", "distillation"} for r in steps)
    (log,) = (tmp_path / "run" / "logs").glob("timing_*.jsonl")
    timings = [json.loads(line) for line in log.read_text().splitlines()]
    names = [set(r["ms"]) for r in timings if r["kind"] == "step"]
    assert all("step/forward/teacher" in name for name in names)
    epochs = [r for r in metrics(tmp_path / "run") if r["kind"] == "epoch"]
    assert [(r["epoch"], r["samples"]) for r in epochs] == [(1, 4), (2, 4)]
    # The final weights are the moving average's, and so are the metrics.
    (last,) = [r for r in metrics(tmp_path / "run") if r["kind"] == "validation"][-1:]
    folder = tmp_path / "published"
    publish(tmp_path / "run", folder)
    assert last["psnr"] == pytest.approx(validated_by_hand(deblurring_project, folder), abs=1e-3)
    state = torch.load(tmp_path / "run" / "checkpoints" / "step_00000008.pt", weights_only=True)
    published = load_file(folder / "weights.safetensors")
    learned = [name for name in published if not torch.equal(published[name], state["model"][name])]
    assert any("conv_last" in name for name in learned)
    for name in learned:
        torch.testing.assert_close(published[name], state["average"][f"module.{name}"])


def test_a_run_goes_on_from_a_trained_model_and_resumes_exactly(
    deblurring_project, run_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    start, run, stopped = tmp_path / "start", tmp_path / "run", tmp_path / "stopped"
    publish(run_folder, start)
    settings = train_here(
        deblurring_project, run, f"MODEL.PRETRAINED={start}", "SEED=7", "TRAIN.MAX_STEPS=4"
    )
    begun = build_training_model(settings).state_dict()
    trained = load_file(start / "weights.safetensors")
    assert all(torch.equal(begun[name], trained[name]) for name in trained)
    # As after a crash: the last two steps are computed again.
    shutil.copytree(run, stopped)
    (stopped / "checkpoints" / "step_00000004.pt").unlink()
    assert train_preset(RunIdentity.read(stopped), stopped) == 0
    weights, again = (load_file(folder / "weights.safetensors") for folder in (run, stopped))
    assert all(torch.equal(again[name], weights[name]) for name in weights)
    assert any(not torch.equal(weights[name], trained[name]) for name in weights)
    publish(run, tmp_path / "published")
    digest = hashlib.sha256((start / "weights.safetensors").read_bytes()).hexdigest()
    assert RunIdentity.read(tmp_path / "published").weights == {"MODEL.PRETRAINED": digest}
