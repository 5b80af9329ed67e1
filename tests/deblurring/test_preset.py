"""The real task from end to end: launcher, torchrun, a tiny model on tiny data."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import islice, pairwise
from pathlib import Path

import cv2
import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vrtspike.config import load_preset
from vrtspike.deblurring.data.clips.dataset import load_dataset, merge_dataset
from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.raw.spikes import read_spikes
from vrtspike.deblurring.data.simulation.sequence import write_sequence
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.deblurring.losses.charbonnier import charbonnier
from vrtspike.deblurring.preset import (
    build_network,
    build_task,
    build_trainable,
    load_teacher,
    training_batches,
    validation_batches,
)
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import RunError
from vrtspike.files import write_json
from vrtspike.images import luma, read_rgb
from vrtspike.runs.code import read_code, settle_code, write_code
from vrtspike.runs.identity import RunIdentity, identify
from vrtspike.runs.prepare import prepare_folder
from vrtspike.runs.publish import publish
from vrtspike.training.distributed import Ranks
from vrtspike.training.presets import run_preset
from vrtspike.training.workers import Workers

STEPS = 12
SEQUENCES = (("train", "one"), ("train", "two"), ("test", "three"))
CPU = torch.device("cpu")
ALONE = Ranks(0, 0, 1, 1, CPU)
NO_WORKERS = Workers(2, 1, 0, 0)
BIN_EDGES = (0, 35, 40, 46, 88)
"""First steps of the four bins of an exposure of 88 steps, and its end."""

PRESET = f"""
DATA: {{CROP_SIZE: 32, CLIP_LEN: 2, K: 4}}
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


def film(seed: int) -> list[np.ndarray]:
    """33 frames, uint8 (48, 64, 3), of a smooth texture that moves to the left."""
    noise = np.random.default_rng(seed).random((48, 130, 3), dtype=np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 2.0)
    scene = (255 * np.clip(0.5 + 3 * (smooth - 0.5), 0, 1)).astype(np.uint8)
    return [scene[:, 2 * i : 2 * i + 64] for i in range(33)]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a data set, a configuration and a preset."""
    folder = tmp_path_factory.mktemp("place")
    manifests = []
    for seed, (split, name) in enumerate(SEQUENCES):
        raw = folder / "raw"
        write_sequence(raw / split / name, film(seed), frames_per_exposure=11, seed=seed)
        ingested = ingest_sequence(raw, split, name, blur_dir="blur", source_version="1")
        write_json(folder / "ingest" / f"{name}.json", ingested)
        manifests.append(folder / "k4" / split / f"{name}.json")
        build_store(raw, folder / "ingest" / f"{name}.json", 4, manifests[-1])
    merged = merge_dataset(manifests, dataset="tiny", bins=4, folder=folder / "k4")
    write_json(folder / "k4" / "dataset.json", merged)
    (folder / "presets").mkdir()
    (folder / "presets" / "tiny.yaml").write_text(PRESET)
    (folder / "config.yaml").write_text(f"PRESET_DIR: {folder / 'presets'}\nPRESETS: [tiny]\n")
    return folder


def start(repository: Path, place: Path, folder: Path, *options: str) -> subprocess.Popen:
    command = [
        *(sys.executable, str(repository / "scripts" / "launch_training.py"), "--preset", "tiny"),
        *("--configfile", str(place / "config.yaml"), "--runs", str(folder / "runs")),
        *("--dataset", str(place / "k4" / "dataset.json"), "--output", str(folder / "result")),
        *("--gpus", "0", *options),
    ]
    return subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def metrics(folder: Path) -> list[dict]:
    found = list(folder.glob("**/metrics.jsonl"))
    lines = found[0].read_text().split("\n")[:-1] if found else []
    return [json.loads(line) for line in lines]


def wait_for_step(folder: Path, step: int, process: subprocess.Popen) -> None:
    while not any(record["step"] >= step for record in metrics(folder)):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


@pytest.fixture(scope="module")
def result(place, repository, tmp_path_factory) -> Path:
    """The published result of an undisturbed run of the program itself, without torchrun."""
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


@pytest.mark.endurance
def test_stopped_and_killed_run_publishes_what_an_undisturbed_one_does(
    place, repository, result, tmp_path
):
    process = start(repository, place, tmp_path)
    wait_for_step(tmp_path, 1, process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 75, output
    assert "the same command continues from there" in output
    assert "Traceback" not in output
    assert not (tmp_path / "result").exists()

    process = start(repository, place, tmp_path)
    wait_for_step(tmp_path, metrics(tmp_path)[-1]["step"] + 2, process)
    family = [psutil.Process(process.pid)]
    family += family[0].children(recursive=True)
    # The training process first: it would save if it noticed the end of the others.
    for member in reversed(family):
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    process.communicate()
    assert not (tmp_path / "result").exists()

    process = start(repository, place, tmp_path)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "resuming after step" in output

    published = tmp_path / "result"
    timeless = [{k: r[k] for k in r.keys() & {"step", "loss", "psnr"}} for r in metrics(result)]
    assert [{k: r[k] for k in r.keys() & {"step", "loss", "psnr"}} for r in metrics(published)] == (
        timeless
    )
    expected = load_file(result / "weights.safetensors")
    for name, value in load_file(published / "weights.safetensors").items():
        assert torch.equal(value, expected[name]), name
    check_published(published)
    figures = json.loads((published / "run.json").read_text())["metrics"]
    assert figures["psnr"] == pytest.approx(validated_by_hand(place, published), abs=1e-3)


def validated_by_hand(place: Path, folder: Path) -> float:
    """The PSNR of a run's final weights on the two validation clips, from the raw files."""
    settings = RunIdentity.read(folder).settings
    model = build_network(settings).eval()
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    raw = place / "raw" / "test" / "three"
    blur, sharp = (
        np.stack([read_rgb(path) for path in sorted((raw / kind).iterdir())])
        for kind in ("blur", "sharp")
    )
    spikes = np.stack([read_spikes(path, 24, 32) for path in sorted((raw / "spike").iterdir())])
    gray = np.stack([luma(frame) / 255 for frame in blur])
    gray = gray.reshape(3, 24, 2, 32, 2).mean(axis=(2, 4), dtype=np.float64)
    gain = (gray * spikes.mean(axis=1)).sum() / (spikes.mean(axis=1) ** 2).sum()
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
def test_changed_code_is_told_and_trains_again_only_when_asked(place, repository, result, tmp_path):
    run = RunIdentity.read(result)
    folder = tmp_path / "runs" / "tiny" / run.fingerprint
    shutil.copytree(result, folder)
    code = read_code(folder)
    write_code(folder, code | {"training/loop.py:Trainer": "of old"})

    def launch(*options: str) -> str:
        process = start(repository, place, tmp_path, *options)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        return output

    told = launch()
    assert "code has changed since this run began: Trainer in training/loop.py; " in told
    assert "snakemake --forcerun train_tiny" in told
    assert "the run was finished before" in told
    assert (tmp_path / "result/weights.safetensors").read_bytes() == (
        result / "weights.safetensors"
    ).read_bytes()

    again = launch("--anew")
    assert f"the run of other code stands in {folder}.1 now: Trainer in training/loop.py" in again
    assert read_code(folder) == code
    assert json.loads((tmp_path / "result/run.json").read_text())["starts"][0]["step"] == 0
    assert json.loads((folder.with_name(f"{folder.name}.1") / "run.json").read_text()) == (
        json.loads((result / "run.json").read_text())
    )

    assert "the run is of today's code; remove its folder" in launch("--anew")
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
    }
    settings = RunIdentity.read(folder).settings
    model = build_network(settings)
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    run = json.loads((folder / "run.json").read_text())
    assert run["status"] == "finished"
    assert len(run["starts"]) == 3
    assert run["parameters"] == sum(p.numel() for p in model.parameters())
    assert settings.TRAIN.MAX_STEPS == STEPS
    assert run["dataset_digest"] == load_dataset(run["dataset"]).digest
    surroundings = run["environment"]
    assert {"git", "python", "packages", "host", "device"} <= surroundings.keys()
    assert surroundings["packages"]["torch"] == torch.__version__.split("+")[0]
    with (folder / "metrics.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["step"]) for row in rows if row["kind"] == "train"] == list(range(1, STEPS + 1))
    assert [int(row["step"]) for row in rows if row["kind"] == "validation"] == [4, 8, 12]
    timings = [json.loads(line) for line in (folder / "timing.jsonl").read_text().splitlines()]
    assert [t["step"] for t in timings if t["kind"] == "step"] == list(range(1, STEPS + 1))
    sections = set().union(*(t["ms"] for t in timings if t["kind"] == "step"))
    assert {
        "step/forward/spike_encoder",
        "step/forward/vrt/stage8",
        "step/loss/charbonnier",
        "validation",
    } <= sections
    memory = [json.loads(line) for line in (folder / "memory.jsonl").read_text().splitlines()]
    assert {4, 8, 12} <= {m["step"] for m in memory if m["kind"] == "memory"}


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


def test_the_cache_is_on_and_counts_the_reads_of_training(result):
    """Twelve clips of two frames and three arrays; validation reads in the same process."""
    lines = (result / "logs/memory.jsonl").read_text().splitlines()
    cache = [json.loads(line) for line in lines if '"memory"' in line][-1]["cache"]
    assert cache["hits"] + cache["misses"] == STEPS * 2 * 3
    # Once each: 2 sequences of 3 frames and 3 arrays, and the descriptions and indices of 6 files.
    assert cache["misses"] == 2 * 3 * 3 + 2 * 6
    assert cache["limit_mb"] == pytest.approx(4e9 / 2**20, abs=0.1)
    assert not cache["full"]


def test_user_errors_are_told_without_traceback(place, repository, tmp_path):
    command = [
        *(sys.executable, str(repository / "scripts" / "train.py"), "--run-dir", str(tmp_path)),
        *("--preset", str(place / "presets" / "tiny.yaml")),
        *("--dataset", str(place / "k4" / "dataset.json")),
        *("--set", "LOSS.VGG_PERCEPTUAL.WEIGHT=0.1", "--set", f"WEIGHTS.DIR={tmp_path}"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "vgg16-397923af.pth: no such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_in_the_place_of_the_lock_is_told_by_the_launcher(place, repository, tmp_path):
    settings = load_preset(place / "presets" / "tiny.yaml")
    run = identify("tiny", settings, place / "k4" / "dataset.json")
    folder = tmp_path / "runs" / "tiny" / run.fingerprint
    (folder / "lock").mkdir(parents=True)
    process = start(repository, place, tmp_path)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert f"error: {folder / 'lock'}: found a folder, expected a lock file" in output
    assert "Traceback" not in output
    assert "torch.distributed" not in output


def train_here(place: Path, folder: Path, *overrides: str) -> Settings:
    """A run of the preset in this process, without the launcher."""
    settings = load_preset(place / "presets" / "tiny.yaml", overrides)
    identify("tiny", settings, place / "k4" / "dataset.json").write(folder)
    settle_code(folder, Path(__file__).parents[2] / "scripts" / "train.py")
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


def test_augmented_clips_resume_exactly_with_other_workers(place, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    steps = ("TRAIN.MAX_STEPS=4", "LOSS.CHARBONNIER.WEIGHT=1.0")
    settings = train_here(place, tmp_path / "whole", *steps, "DATALOADER.TRAIN_WORKERS=0")
    assert settings.DATA.AUGMENT
    # As after a crash: the checkpoint of step 2 is the newest, the records go on.
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    (tmp_path / "cut" / "checkpoints" / "step_00000004.pt").unlink()
    train_here(place, tmp_path / "cut", *steps, "DATALOADER.TRAIN_WORKERS=1")
    whole, cut = (load_file(tmp_path / name / "weights.safetensors") for name in ("whole", "cut"))
    for name, value in whole.items():
        assert torch.equal(value, cut[name]), name


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
    data = {"CROP_SIZE": 32, "CLIP_LEN": 2, "K": 4, "AUGMENT": False, "THRESHOLD_AUGMENT": 0.0}
    return Settings.model_validate({**sections, "DATA": data | sections.get("DATA", {})})


def clips_of(place: Path, settings: Settings, count: int) -> list[list[tuple[str, int, bytes]]]:
    """Sequence, first frame and blurry crops of the clips in the first batches of a run."""
    dataset = load_dataset(place / "k4" / "dataset.json")
    batches = training_batches(settings, dataset, NO_WORKERS, ALONE)
    found = []
    for batch in islice(batches.stream(0, 1, count), count):
        crops = [crop.numpy().tobytes() for crop in batch["blur"]]
        found.append(list(zip(batch["sequence"], batch["start"].tolist(), crops, strict=True)))
    return found


def test_an_epoch_has_every_clip_of_the_training_split_once(place):
    settings = batch_settings(TRAIN={"BATCH_SIZE": 3}, DATALOADER={"DROP_LAST": False})
    first, second = clips_of(place, settings, 2)
    assert (len(first), len(second)) == (3, 1)
    names = sorted((sequence, start) for sequence, start, _ in first + second)
    assert names == [("train/one", 0), ("train/one", 1), ("train/two", 0), ("train/two", 1)]
    # Without the incomplete batch every batch is a new epoch's first.
    dropping = batch_settings(TRAIN={"BATCH_SIZE": 3})
    assert [len(batch) for batch in clips_of(place, dropping, 3)] == [3, 3, 3]


def test_the_seed_decides_the_order_and_the_crops(place):
    orders, crops = [], []
    for seed in (1, 1, 2):
        epochs = [clip for (clip,) in clips_of(place, batch_settings(SEED=seed), 8)]
        orders.append([clip[:2] for clip in epochs])
        crops.append({clip[:2]: clip[2] for clip in epochs[:4]})
    assert orders[0] == orders[1] != orders[2]
    assert crops[0] == crops[1]
    assert all(crops[0][clip] != crops[2][clip] for clip in crops[0])


def test_clips_of_a_block_stay_together(place):
    def together(block: int) -> list[bool]:
        settings = batch_settings(
            TRAIN={"BATCH_SIZE": 2}, DATALOADER={"SHUFFLE_BLOCK": block}, SEED=3
        )
        # Two batches are an epoch.
        batches = clips_of(place, settings, 12)
        return [len({sequence for sequence, *_ in batch}) == 1 for batch in batches]

    assert all(together(2))
    assert not all(together(1))


def test_validation_sees_the_middle_of_the_test_split_in_batches_of_its_own(place):
    dataset = load_dataset(place / "k4" / "dataset.json")
    settings = batch_settings(TRAIN={"VAL_BATCH_SIZE": 2})
    (batch,) = validation_batches(settings, dataset, NO_WORKERS, ALONE)
    assert list(batch["sequence"]) == ["test/three"] * 2
    assert batch["start"].tolist() == [0, 1]
    raw = place / "raw" / "test" / "three"
    for kind in ("blur", "sharp"):
        frames = [read_rgb(path) for path in sorted((raw / kind).iterdir())]
        for clip, start in zip(batch[kind].numpy(), (0, 1), strict=True):
            expected = [frame[8:40, 16:48] for frame in frames[start : start + 2]]
            np.testing.assert_array_equal(clip, expected)
    single = batch_settings()
    shares = [
        [
            each["start"].tolist()
            for each in validation_batches(
                single, dataset, NO_WORKERS, Ranks(rank, rank, 2, 2, CPU)
            )
        ]
        for rank in (0, 1)
    ]
    assert shares == [[[0]], [[1]]]


def test_given_statistics_replace_those_of_the_data_set(place):
    dataset = load_dataset(place / "k4" / "dataset.json")
    settings = batch_settings(DATA={"NORM": {"MEAN": 0.3, "STD": 0.2}})
    batches = training_batches(settings, dataset, NO_WORKERS, ALONE)
    batch = next(batches.stream(0, 1, 1))
    voxels = build_task(settings, dataset, CPU).prepare(batch, CPU).clip.voxels
    rate = batch["counts"].numpy() / batch["bin_steps"].numpy()[..., None, None]
    expected = (batch["gain"].item() * rate - 0.3) / 0.2
    expected = expected.repeat(2, axis=3).repeat(2, axis=4)
    np.testing.assert_allclose(voxels.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_the_cache_is_divided_among_all_reading_processes_of_a_machine(place):
    """Rank and worker alike; what is read for the first time is missed, and found in the next."""
    dataset = load_dataset(place / "k4" / "dataset.json")
    data = {"READER": "tensorstore", "USE_RAM_CACHE": True, "CACHE_SIZE_GB": 0.6}
    settings = batch_settings(DATA=data)
    batches = training_batches(settings, dataset, NO_WORKERS, Ranks(0, 0, 3, 2, CPU))
    found = []
    for number, _ in enumerate(batches.stream(0, 1, 64)):
        if number % 32 == 31:
            found.append(batches.cache_use())
    assert found[0].limit_bytes == 300_000_000
    # Four clips lie in a handful of chunks.
    assert found[1].misses == found[0].misses
    assert found[1].hits > found[0].hits


def test_a_teacher_keeps_its_own_model_and_never_learns(place, result, tmp_path):
    publish(result, tmp_path / "teacher")
    wider = [8] * 11
    settings = load_preset(
        place / "presets" / "tiny.yaml",
        [f"MODEL.VRT.EMBED_DIMS={wider}"],
    )
    teacher = load_teacher(tmp_path / "teacher", settings)
    expected = load_file(tmp_path / "teacher" / "weights.safetensors")
    assert all(torch.equal(value, expected[name]) for name, value in teacher.state_dict().items())
    assert not any(module.training for module in teacher.modules())
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


def progressive() -> Settings:
    phases = [{"CROP_SIZE": 16, "EPOCHS": 1}, {"CROP_SIZE": 32, "EPOCHS": 2}]
    return Settings.model_validate(
        {
            "DATA": {"CROP_SIZE": 32, "CLIP_LEN": 2, "K": 4},
            "TRAIN": {"PROGRESSIVE": phases, "BATCH_SIZE": 2},
        }
    )


def test_progressive_phases_grow_the_crops(place):
    dataset = load_dataset(place / "k4" / "dataset.json")
    batches = training_batches(progressive(), dataset, NO_WORKERS, ALONE)
    sizes = [batch["blur"].shape[2] for batch in batches.stream(0, 1, 5)]
    # Four clips in batches of two: an epoch of 16 x 16, then 32 x 32.
    assert sizes == [16, 16, 32, 32, 32]


def test_teacher_guides_the_student(place, result, tmp_path):
    teacher = tmp_path / "teacher"
    publish(result, teacher)
    preset = place / "presets" / "tiny.yaml"
    settings = load_preset(preset, [f"TRAIN.DISTILL.TEACHER={teacher}", "TRAIN.DISTILL.WEIGHT=0.5"])
    dataset = load_dataset(place / "k4" / "dataset.json")
    task = build_task(settings, dataset, CPU)
    batches = training_batches(settings, dataset, NO_WORKERS, ALONE)
    batch = task.prepare(next(batches.stream(0, 1, 1)), CPU)
    # Without its random paths, so that it says the same twice.
    student = build_network(settings).eval()
    losses = task.losses(task.forward(student, batch), batch, step=0)
    assert losses.keys() == {"charbonnier", "distillation"}
    expected = load_teacher(teacher, settings)(batch.clip.blur, batch.clip.voxels)
    distance = charbonnier(student(batch.clip.blur, batch.clip.voxels), expected)
    torch.testing.assert_close(losses["distillation"], 0.5 * distance)
    # In validation nobody teaches.
    batch = task.prepare(next(batches.stream(0, 1, 1)), CPU)
    with torch.no_grad():
        losses = task.losses(task.forward(student, batch), batch, step=0)
    assert losses.keys() == {"charbonnier"}


def test_missing_or_unfitting_teacher_is_an_error(place, result, tmp_path):
    settings = load_preset(
        place / "presets" / "tiny.yaml", [f"TRAIN.DISTILL.TEACHER={tmp_path / 'none'}"]
    )
    with pytest.raises(RunError, match="train that preset first"):
        build_task(settings, load_dataset(place / "k4" / "dataset.json"), CPU)
    teacher = tmp_path / "teacher"
    publish(result, teacher)
    data = settings.DATA.model_copy(update={"K": 8})
    with pytest.raises(RunError, match=r"DATA\.K = 4, this preset has 8"):
        load_teacher(teacher, settings.model_copy(update={"DATA": data}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("cut", r"weights\.safetensors: not a whole safetensors file"),
        ("empty", r"weights\.safetensors: not a whole safetensors file"),
        ("other kind", r"weights\.safetensors: not a whole safetensors file"),
        ("a tensor", r"weights of another model \(1\):\n  - vrt\.conv_first\.bias: missing"),
        ("other settings", r"fusion\.0\.key_value\.bias: shape \(8,\), expected \(16,\)"),
        ("no settings", r"settings\.json: no such file"),
    ],
)
def test_a_damaged_teacher_is_named(place, result, tmp_path, damage, message):
    teacher = tmp_path / "teacher"
    publish(result, teacher)
    weights, kept = teacher / "weights.safetensors", teacher / "settings.json"
    if damage == "a tensor":
        state = load_file(weights)
        del state["vrt.conv_first.bias"]
        save_file(state, weights)
    elif damage == "other settings":
        chosen = json.loads(kept.read_text())
        chosen["settings"]["MODEL"]["VRT"]["EMBED_DIMS"] = [8] * 11
        write_json(kept, chosen)
    elif damage == "no settings":
        kept.unlink()
    else:
        contents = weights.read_bytes()
        changes = {"cut": contents[:-9], "empty": b"", "other kind": b"\x89PNG\r\n\x1a\n" * 9}
        weights.write_bytes(changes[damage])
    settings = load_preset(place / "presets" / "tiny.yaml", [f"TRAIN.DISTILL.TEACHER={teacher}"])
    dataset = load_dataset(place / "k4" / "dataset.json")
    with pytest.raises(RunError, match=message) as caught:
        build_task(settings, dataset, CPU)
    assert str(caught.value).startswith(f"TRAIN.DISTILL.TEACHER {teacher}: the teacher is damaged")
    assert "Train that preset again" in str(caught.value)


def test_an_existing_run_takes_only_overrides_that_leave_its_result(result):
    before = RunIdentity.read(result)
    options = {"preset": None, "dataset": None}
    prepare_folder(result, overrides=["LOG.MEMORY_EVERY_STEPS=7"], **options)
    after = RunIdentity.read(result)
    assert after.settings.LOG.MEMORY_EVERY_STEPS == 7
    assert after.fingerprint == before.fingerprint
    with pytest.raises(RunError, match="changes the result"):
        prepare_folder(result, overrides=["TRAIN.OPTIM.LR=1e-3"], **options)
    with pytest.raises(RunError, match=r"settings\.json: no such file"):
        prepare_folder(result / "nowhere", overrides=[], **options)


def test_a_run_is_not_continued_on_other_data(result, tmp_path):
    shutil.copytree(result, tmp_path / "run")
    settings = json.loads((result / "settings.json").read_text())
    changed = json.loads(Path(settings["dataset"]).read_text()) | {"digest": "of data made anew"}
    write_json(tmp_path / "dataset.json", changed)
    settings["dataset"] = str(tmp_path / "dataset.json")
    write_json(tmp_path / "run" / "settings.json", settings)
    options = {"preset": None, "dataset": None}
    with pytest.raises(RunError, match=r"dataset\.json has changed since this run began"):
        prepare_folder(tmp_path / "run", overrides=[], **options)


def test_a_folder_never_changes_its_run(place, result):
    options = {"dataset": place / "k4" / "dataset.json"}
    preset = place / "presets" / "tiny.yaml"
    with pytest.raises(RunError, match="holds run"):
        prepare_folder(result, preset=preset, overrides=["SEED=99"], **options)
