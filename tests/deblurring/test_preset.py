"""The real objective from end to end: launcher, a training process, a tiny model on tiny data."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.data.prepared import prepared
from tests.data.scenes import film
from vrtspike.config import load_preset
from vrtspike.data.clips.dataset import load_dataset
from vrtspike.data.clips.run_statistics import run_statistics, training_statistics
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.data.store.reading import Store
from vrtspike.data.store.voxels import Statistics
from vrtspike.deblurring.preset import (
    build,
    build_objective,
    build_trainable,
    load_teacher,
    training_batches,
    validation_batches,
)
from vrtspike.io.files import read_json, write_json
from vrtspike.io.images import read_rgb
from vrtspike.losses.charbonnier import charbonnier
from vrtspike.models import build_model
from vrtspike.runs.code import record_code, write_code
from vrtspike.runs.identity import RunIdentity, identify, write_statistics
from vrtspike.runs.published import publish
from vrtspike.settings import Settings
from vrtspike.sst.settings import SSTSettings
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.training.distributed import Ranks
from vrtspike.training.run import run_preset
from vrtspike.training.workers import Workers

STEPS = 12
SEQUENCES = ("train/one", "train/two", "test/three")
CPU = torch.device("cpu")
ALONE = Ranks(0, 0, 1, 1, CPU)
NO_WORKERS = Workers(2, 1, 0, 0)
BIN_EDGES = (0, 35, 40, 46, 88)
"""First steps of the four bins of an exposure of 88 steps, and its end."""

PRESET = f"""
DATA: {{CROP_SIZE: 32, CLIP_LEN: 2, NUM_VOXEL_BINS: 4, VALIDATION: test}}
MODEL:
  VRT_DEPTHS: [1, 1, 1, 1, 1, 1, 1, 1]
  WINDOW_SIZE: [2, 4, 4]
  VRT: {{EMBED_DIMS: [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4], NUM_HEADS: 2, DEFORMABLE_GROUPS: 2}}
  SPIKE_TSA: {{HEADS: 2}}
  FUSE: {{HEADS: 2, INIT: random}}
DATALOADER: {{TRAIN_WORKERS: 0}}
TRAIN:
  MAX_STEPS: {STEPS}
  EPOCHS: 100
  GRADIENT_ACCUMULATION_STEPS: 1
  PRECISION: "32"
  SAVE_EVERY_STEPS: 2
  SCHED: {{WARMUP_STEPS: 2}}
LOG: {{VAL_EVERY_STEPS: 4, MEMORY_EVERY_STEPS: 2}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a data set, a configuration and a preset."""
    folder = tmp_path_factory.mktemp("place")
    raw = folder / "raw"
    for seed, name in enumerate(SEQUENCES):
        write_sequence(
            raw / name,
            film(seed, 33, 48, 64),
            frames_per_exposure=11,
            sensor=SimulatedSensor(SEED=seed),
        )
    prepared(raw, SEQUENCES, folder, bins=4)
    (folder / "presets").mkdir()
    (folder / "presets" / "tiny.yaml").write_text(PRESET)
    (folder / "config.yaml").write_text(f"PRESET_DIR: {folder / 'presets'}\nPRESETS: [tiny]\n")
    return folder


def metrics(folder: Path) -> list[dict]:
    logs = list(folder.glob("**/metrics.jsonl"))
    lines = logs[0].read_text().split("\n")[:-1] if logs else []
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def result(place, repository, tmp_path_factory) -> Path:
    """The published result of an undisturbed run of the program itself, without the launcher."""
    folder = tmp_path_factory.mktemp("undisturbed")
    command = [
        *(sys.executable, str(repository / "scripts" / "train.py"), "--run-dir", str(folder)),
        *("--preset", str(place / "presets" / "tiny.yaml")),
        *("--dataset", str(place / "k4" / "dataset.json")),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return folder


def test_a_run_publishes_weights_settings_records_and_their_figures(place, result, tmp_path):
    publish(result, tmp_path / "result")
    check_published(tmp_path / "result")
    figures = json.loads((tmp_path / "result" / "run.json").read_text())["metrics"]
    expected = validated_by_hand(place, tmp_path / "result")
    assert figures["psnr"] == pytest.approx(expected, abs=1e-3)


def validated_by_hand(place: Path, folder: Path) -> float:
    """The PSNR of a run's final weights on the two validation clips, from the raw files."""
    settings = RunIdentity.read(folder).settings
    model = build_model(settings).eval()
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    raw = place / "raw" / "test" / "three"
    blur, sharp = (
        np.stack([read_rgb(path) for path in sorted((raw / kind).iterdir())])
        for kind in ("blur", "sharp")
    )
    spikes = np.stack([read_spikes(path, 24, 32) for path in sorted((raw / "spike").iterdir())])
    gain = Store(place / "k4" / "test" / "three.zarr").gain
    rate = np.stack([spikes[:, a:b].mean(axis=1) for a, b in pairwise(BIN_EDGES)], axis=1)
    statistics = load_dataset(place / "k4" / "dataset.json").statistics
    voxels = ((gain * rate - statistics.mean) / statistics.std).repeat(2, axis=2).repeat(2, axis=3)
    # The middle of the frames; the second clip is moved back to end with the sequence.
    blur, sharp = (frames[:, 8:40, 16:48].transpose(0, 3, 1, 2) / 255 for frames in (blur, sharp))
    figures = []
    for start in (0, 1):
        clip = slice(start, start + 2)
        inputs = (blur[None, clip], voxels[None, clip, :, 8:40, 16:48])
        with torch.no_grad():
            output = model(*(torch.from_numpy(array).float() for array in inputs))[0].numpy()
        error = np.rint(255 * output.clip(0, 1).astype(float)) - 255 * sharp[clip]
        figures += [10 * np.log10(255**2 / np.mean(frame**2)) for frame in error]
    return float(np.mean(figures))


@pytest.mark.endurance
def test_changed_code_is_reported_and_retrained_on_request(place, repository, result, tmp_path):
    run = RunIdentity.read(result)
    folder = tmp_path / "runs" / "tiny" / run.fingerprint
    shutil.copytree(result, folder)
    code = read_json(folder / "code.json")["files"]
    write_code(folder, code | {"training/loop.py": "of old"})

    def launch(*options: str) -> str:
        command = [
            *(sys.executable, str(repository / "scripts" / "launch_training.py")),
            *("--preset", "tiny", "--configfile", str(place / "config.yaml"), "--gpus", "0"),
            *("--dataset", str(place / "k4" / "dataset.json")),
            *("--runs", str(tmp_path / "runs"), "--output", str(tmp_path / "result"), *options),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    output = launch()
    assert "code has changed since this run began: training/loop.py; " in output
    assert "snakemake train_tiny --config RETRAIN=tiny" in output
    assert "the run was finished before" in output
    assert (tmp_path / "result/weights.safetensors").read_bytes() == (
        result / "weights.safetensors"
    ).read_bytes()

    again = launch("--retrain")
    assert f"the former run is now {folder}.1: training/loop.py" in again
    assert read_json(folder / "code.json")["files"] == code
    assert json.loads((tmp_path / "result/run.json").read_text())["starts"][0]["step"] == 0
    assert json.loads((folder.with_name(f"{folder.name}.1") / "run.json").read_text()) == (
        json.loads((result / "run.json").read_text())
    )

    assert "the run's code has not changed; remove its folder" in launch("--retrain")
    assert len(list(folder.parent.iterdir())) == 2


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


def test_tensorboard_has_every_step_once_and_pictures(place, result, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    shutil.copytree(result, tmp_path / "run")
    # As after a crash: two steps are computed again.
    (tmp_path / "run" / "checkpoints" / f"step_{STEPS:08d}.pt").unlink()
    assert run_preset(tmp_path / "run") == 0
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    for tag in ("loss/charbonnier", "train/loss", "train/lr", "train/samples_per_second"):
        assert [event.step for event in board.Scalars(tag)] == list(range(1, STEPS + 1))
    for tag in ("validation/psnr", "epoch/samples"):
        assert [event.step for event in board.Scalars(tag)] == [4, 8, 12]
    (picture, _, _) = board.Images("restored")
    # Blurry, restored and sharp beside each other.
    assert picture.width >= 3 * 32


def train_here(place: Path, folder: Path, *overrides: str) -> Settings:
    """A run of the preset in this process, without the launcher."""
    settings = load_preset(place / "presets" / "tiny.yaml", overrides)
    identify("tiny", settings, place / "k4" / "dataset.json").write(folder)
    record_code(folder, Path(__file__).parents[2] / "scripts" / "train.py", settings.TASK)
    write_statistics(folder)
    assert run_preset(folder) == 0
    return settings


def test_progressive_run_distils_from_a_teacher(place, result, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    publish(result, tmp_path / "teacher")
    phases = "[{CROP_SIZE: 16, EPOCHS: 1}, {CROP_SIZE: 32, EPOCHS: 1}]"
    train_here(
        place,
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
    # The final weights are the moving average's, and so are the figures.
    (last,) = [r for r in metrics(tmp_path / "run") if r["kind"] == "validation"][-1:]
    folder = tmp_path / "published"
    publish(tmp_path / "run", folder)
    assert last["psnr"] == pytest.approx(validated_by_hand(place, folder), abs=1e-3)
    state = torch.load(tmp_path / "run" / "checkpoints" / "step_00000008.pt", weights_only=True)
    published = load_file(folder / "weights.safetensors")
    learned = [name for name in published if not torch.equal(published[name], state["model"][name])]
    assert any("conv_last" in name for name in learned)
    for name in learned:
        torch.testing.assert_close(published[name], state["average"][f"module.{name}"])


def test_parts_of_a_model_learn_as_the_preset_says(place):
    factors = "{NEW: 2, BACKBONE: 0.5, FLOW: 0.25}"
    overrides = [f"TRAIN.OPTIM.LR_FACTORS={factors}", "TRAIN.FREEZE_FLOW_STEPS=7"]
    for options, rates, frozen in (
        (overrides, {"others": 2.0, "backbone": 0.5, "flow": 0.125}, {"flow": 7}),
        ([], {"others": 1.0, "backbone": 1.0, "flow": 0.125}, {"flow": 0}),
    ):
        settings = load_preset(place / "presets" / "tiny.yaml", options)
        run = identify("tiny", settings, place / "k4" / "dataset.json")
        trainable = build(run, ALONE, NO_WORKERS)
        assert (trainable.rate_factors, trainable.frozen_steps) == (rates, frozen)


def test_clips_of_one_frame_train_every_parameter_that_is_not_fixed(place):
    """Flow and alignment have nothing to do; several processes would wait for their gradients."""
    settings = load_preset(place / "presets" / "tiny.yaml", ["DATA.CLIP_LEN=1"])
    model = build_trainable(settings)
    model(torch.rand(1, 1, 3, 32, 32), torch.rand(1, 1, 4, 32, 32)).sum().backward()
    trained = {name for name, p in model.named_parameters() if p.grad is not None}
    assert trained == {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained.isdisjoint(model.rate_groups()["flow"])


def batch_settings(**sections: dict) -> Settings:
    """Of small batches, the crops of which are not turned."""
    data = {
        "CROP_SIZE": 32,
        "CLIP_LEN": 2,
        "NUM_VOXEL_BINS": 4,
        "AUGMENT": False,
        "THRESHOLD_AUGMENT": 0.0,
        "FAULT_AUGMENT": 0.0,
        "VALIDATION": "test",
    }
    return Settings.model_validate({**sections, "DATA": data | sections.get("DATA", {})})


def clips_of(place: Path, settings: Settings, count: int) -> list[list[tuple[str, int]]]:
    """Sequence and first frame of the clips in the first batches of a run."""
    dataset = load_dataset(place / "k4" / "dataset.json")
    batches = training_batches(settings, dataset, NO_WORKERS, ALONE)
    stream = islice(batches.stream(0, 1, count), count)
    return [list(zip(batch["sequence"], batch["start"].tolist(), strict=True)) for batch in stream]


def test_batches_of_clips_are_cut_as_the_preset_says(place):
    settings = batch_settings(TRAIN={"BATCH_SIZE": 3}, DATALOADER={"DROP_LAST": False})
    first, second = clips_of(place, settings, 2)
    assert (len(first), len(second)) == (3, 1)
    clips = [(f"train/{name}", start) for name in ("one", "two") for start in (0, 1)]
    assert sorted(first + second) == clips
    # Without the incomplete batch every batch is a new epoch's first.
    dropping = batch_settings(TRAIN={"BATCH_SIZE": 3})
    assert [len(batch) for batch in clips_of(place, dropping, 3)] == [3, 3, 3]
    blocks = batch_settings(TRAIN={"BATCH_SIZE": 2}, DATALOADER={"SHUFFLE_BLOCK": 2}, SEED=3)
    for batch in clips_of(place, blocks, 12):
        assert len({sequence for sequence, _ in batch}) == 1


def test_validation_sees_the_test_split_in_batches_of_its_own(place):
    dataset = load_dataset(place / "k4" / "dataset.json")
    settings = batch_settings(TRAIN={"VAL_BATCH_SIZE": 2})
    (batch,) = validation_batches(settings, dataset, NO_WORKERS, ALONE)
    assert list(batch["sequence"]) == ["test/three"] * 2
    assert batch["start"].tolist() == [0, 1]


def test_validation_sees_training_sequences_that_training_does_not(place):
    """Of one and two, the name with the smaller digest is held out; the test split is unseen."""
    manifest = read_json(place / "k4" / "dataset.json")
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one", "two")}
    (out,) = manifest["held_out"]
    assert out == min(digests, key=digests.__getitem__)
    dataset = load_dataset(place / "k4" / "dataset.json")
    settings = batch_settings(DATA={"VALIDATION": "held_out"})
    names = {
        name
        for batch in training_batches(settings, dataset, NO_WORKERS, ALONE).stream(0, 1, 4)
        for name in batch["sequence"]
    }
    validated = {
        name
        for batch in validation_batches(settings, dataset, NO_WORKERS, ALONE)
        for name in batch["sequence"]
    }
    assert names == {f"train/{name}" for name in digests if name != out}
    assert validated == {f"train, held out/{out}"}
    single = replace(dataset, held_out=())
    with pytest.raises(ConfigError, match=r"a single training sequence .* DATA.VALIDATION to test"):
        training_batches(settings, single, NO_WORKERS, ALONE)


def test_teacher_guides_the_student(place, result, tmp_path):
    teacher = tmp_path / "teacher"
    publish(result, teacher)
    preset = place / "presets" / "tiny.yaml"
    settings = load_preset(preset, [f"TRAIN.DISTILL.TEACHER={teacher}", "TRAIN.DISTILL.WEIGHT=0.5"])
    dataset = load_dataset(place / "k4" / "dataset.json")
    objective = build_objective(settings, dataset, CPU)
    batches = training_batches(settings, dataset, NO_WORKERS, ALONE)
    batch = objective.add_targets(objective.prepare(next(batches.stream(0, 1, 1)), CPU))
    # Without its random paths, so that it says the same twice.
    student = build_model(settings).eval()
    losses = objective.losses(objective.forward(student, batch), batch, step=0)
    assert losses.keys() == {"charbonnier", "distillation"}
    expected = load_teacher(teacher, CPU)(batch.blur, batch.voxels)
    distance = charbonnier(student(batch.blur, batch.voxels), expected)
    torch.testing.assert_close(losses["distillation"], 0.5 * distance)
    sum(losses.values()).backward()
    assert all(parameter.grad is None for parameter in objective._teacher.parameters())


def test_a_teacher_of_other_voxels_is_refused(place, result, tmp_path):
    publish(result, tmp_path / "teacher")
    values = {
        "NUM_VOXEL_BINS=8": r"DATA\.NUM_VOXEL_BINS is 4 there, 8 here\.",
        "CONTEXT_STEPS=8": r"DATA\.CONTEXT_STEPS is 0 there, 8 here\.",
        "NORM={MEAN: 2, STD: 3}": r"NORM\.MEAN is \S+ there, 2 here; .*STD is \S+ there, 3 here",
    }
    for key, difference in values.items():
        overrides = [f"DATA.{key}", f"TRAIN.DISTILL.TEACHER={tmp_path / 'teacher'}"]
        settings = load_preset(place / "presets" / "tiny.yaml", overrides)
        with pytest.raises(ConfigError, match=rf"TEACHER \S+teacher: \S*{difference}"):
            identify("tiny", settings, place / "k4" / "dataset.json")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("other settings", r"fusion\.0\.key_value\.bias: shape \(8,\), expected \(16,\)"),
        ("no settings", r"settings\.json: no such file"),
        ("no weights", r"weights\.safetensors: no such checkpoint"),
    ],
)
def test_a_missing_or_damaged_teacher_is_named(result, tmp_path, damage, message):
    teacher = tmp_path / "teacher"
    publish(result, teacher)
    kept = teacher / "settings.json"
    if damage == "other settings":
        chosen = json.loads(kept.read_text())
        chosen["settings"]["MODEL"]["VRT"]["EMBED_DIMS"] = [8] * 11
        write_json(kept, chosen)
    else:
        (kept if damage == "no settings" else teacher / "weights.safetensors").unlink()
    with pytest.raises(RunError, match=message) as caught:
        load_teacher(teacher, CPU)
    assert str(caught.value).startswith(f"TRAIN.DISTILL.TEACHER {teacher}: the teacher is missing")


def test_a_run_goes_on_from_a_trained_model_and_resumes_exactly(
    place, result, tmp_path, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    start, run, stopped = tmp_path / "start", tmp_path / "run", tmp_path / "stopped"
    publish(result, start)
    settings = train_here(place, run, f"MODEL.PRETRAINED={start}", "SEED=7", "TRAIN.MAX_STEPS=4")
    begun = build_trainable(settings).state_dict()
    trained = load_file(start / "weights.safetensors")
    assert all(torch.equal(begun[name], trained[name]) for name in trained)
    # As after a crash: the last two steps are computed again.
    shutil.copytree(run, stopped)
    (stopped / "checkpoints" / "step_00000004.pt").unlink()
    assert run_preset(stopped) == 0
    weights, again = (load_file(folder / "weights.safetensors") for folder in (run, stopped))
    assert all(torch.equal(again[name], weights[name]) for name in weights)
    assert any(not torch.equal(weights[name], trained[name]) for name in weights)
    publish(run, tmp_path / "published")
    digest = hashlib.sha256((start / "weights.safetensors").read_bytes()).hexdigest()
    assert RunIdentity.read(tmp_path / "published").weights == {"MODEL.PRETRAINED": digest}


def test_voxels_are_standardised_as_the_weights_expect_them(place, result, tmp_path):
    start, dataset = tmp_path / "start", load_dataset(place / "k4" / "dataset.json")
    publish(result, start)
    contents = read_json(start / "statistics.json")
    contents["statistics"] = {"mean": 0.5, "std": 0.25, "count": 9}
    write_json(start / "statistics.json", contents)
    preset = place / "presets" / "tiny.yaml"
    settings = load_preset(preset, [f"MODEL.PRETRAINED={start}"])
    assert training_statistics(settings, dataset) == Statistics(0.5, 0.25, 9)
    assert run_statistics(settings, dataset.path)["statistics"] == contents["statistics"]
    assert training_statistics(load_preset(preset), dataset) == dataset.statistics


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["DATA.NUM_VOXEL_BINS=8"], r"DATA\.NUM_VOXEL_BINS is 4 there, 8 here"),
        (["DATA.CONTEXT_STEPS=8"], r"DATA\.CONTEXT_STEPS is 0 there, 8 here"),
        (["DATA.NORM={MEAN: 2, STD: 3}"], r"NORM\.MEAN is 0\.\d+ there, 2 here; .*\(null in DATA"),
        (["MODEL.FUSE.HEADS=1"], r"MODEL\.FUSE\.HEADS is 2 there, 1 here"),
        (["MODEL.USE_SPIKE=false"], r"MODEL\.USE_SPIKE is true there, false here"),
        (["MODEL.TYPE=spike_nafnet", "MODEL.NAF.NEIGHBOUR_BINS=2"], r'TYPE is "vrt_spike" there'),
    ],
)
def test_a_start_of_other_inputs_or_another_network_is_refused(
    place, result, tmp_path, overrides, message
):
    publish(result, tmp_path / "start")
    keys = [f"MODEL.PRETRAINED={tmp_path / 'start'}", *overrides]
    settings = load_preset(place / "presets" / "tiny.yaml", keys)
    with pytest.raises(ConfigError, match=rf"^MODEL\.PRETRAINED \S+start: .*{message}"):
        identify("tiny", settings, place / "k4" / "dataset.json")


def test_a_start_of_another_problem_or_without_settings_is_refused(place, tmp_path):
    start = tmp_path / "start"
    settings = load_preset(place / "presets" / "tiny.yaml", [f"MODEL.PRETRAINED={start}"])
    with pytest.raises(RunError, match=r"MODEL\.PRETRAINED: .*No such file .* train it first"):
        identify("tiny", settings, place / "k4" / "dataset.json")
    RunIdentity("sea", SSTSettings(TASK="sst"), "", "").write(start)
    (start / "weights.safetensors").touch()
    with pytest.raises(ConfigError, match=r"MODEL\.PRETRAINED \S+: a run of TASK sst"):
        identify("tiny", settings, place / "k4" / "dataset.json")
    (start / "settings.json").unlink()
    with pytest.raises(RunError, match=r"settings\.json: no such file"):
        identify("tiny", settings, place / "k4" / "dataset.json")
