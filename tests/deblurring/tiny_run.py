"""A tiny model on tiny data, trained by the program and in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from tests.data.prepared import prepared
from tests.data.scenes import film
from vrtspike.config import load_preset
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.runs.identity import identify, write_statistics
from vrtspike.staleness.training_code import record_code
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.run import train_preset
from vrtspike.training.workers import WorkerCounts

SCRIPTS = Path(__file__).parents[2] / "scripts"
STEPS = 12
SEQUENCES = ("train/one", "train/two", "test/three")
CPU = torch.device("cpu")
ALONE = DistributedContext(0, 0, 1, 1, CPU)
NO_WORKERS = WorkerCounts(2, 1, 0, 0)


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


def write_project(folder: Path) -> None:
    """Write a data set, a configuration and a preset."""
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


def write_run(deblurring_project: Path, folder: Path) -> None:
    """Train the preset by the program itself, without the launcher."""
    settings = load_preset(deblurring_project / "presets" / "tiny.yaml")
    run = identify("tiny", settings, deblurring_project / "k4" / "dataset.json")
    run.write(folder)
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "train.py"), "--run-dir", str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def metrics(folder: Path) -> list[dict]:
    logs = list(folder.glob("**/metrics.jsonl"))
    lines = logs[0].read_text().split("\n")[:-1] if logs else []
    return [json.loads(line) for line in lines]


def train_here(deblurring_project: Path, folder: Path, *overrides: str) -> DeblurringSettings:
    """A run of the preset in this process, without the launcher."""
    settings = load_preset(deblurring_project / "presets" / "tiny.yaml", overrides)
    run = identify("tiny", settings, deblurring_project / "k4" / "dataset.json")
    run.write(folder)
    record_code(folder, SCRIPTS / "train.py", settings.TASK)
    write_statistics(run, folder)
    assert train_preset(run, folder) == 0
    return settings
