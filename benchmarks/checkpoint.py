"""What saving costs: size of a checkpoint of a preset's full model, and the seconds it takes.

    python benchmarks/checkpoint.py --preset config/presets/baseline.yaml --folder runs

A run that is asked to stop finishes its step and saves; the batch system grants it little time.
Weights, optimiser state and moving average are those of a run (with random numbers in them) and are
written by the run's own code, with the sync to disk. `--folder` should be where runs are kept.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from torch.optim.swa_utils import AveragedModel

from vrtspike.deblurring.preset import build_network
from vrtspike.deblurring.settings.loading import load_video_preset
from vrtspike.runs.checkpoints import list_checkpoints, read_checkpoint
from vrtspike.training.optimizers import build_optimizer, parameter_groups, trainable_groups
from vrtspike.training.run_state import RunState, Stateful


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", type=Path, default=Path("config/presets/baseline.yaml"))
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="on the disk to measure")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    settings = load_video_preset(arguments.preset)
    model = build_network(settings, pretrained=False).to(arguments.device)
    optim = settings.TRAIN.OPTIM
    groups = parameter_groups(trainable_groups(model), 1e-4, optim.LR_FACTORS)
    optimizer = build_optimizer(groups, optim)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    saving, reading = [], []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        parts: dict[str, Stateful] = {"model": model, "average": AveragedModel(model)}
        state = RunState(Path(name), "benchmark", settings, 1, optimizer, parts)
        for step in range(arguments.repeats):
            start = time.perf_counter()
            state.save(step)
            saving.append(time.perf_counter() - start)
            _, newest = list_checkpoints(name)[0]
            start = time.perf_counter()
            read_checkpoint(newest)
            reading.append(time.perf_counter() - start)
        size = newest.stat().st_size
    figures = {
        "preset": arguments.preset.stem,
        "parameters": sum(p.numel() for p in model.parameters()),
        "optimizer": type(optimizer).__name__,
        "device": arguments.device,
        "megabytes": round(size / 1e6, 1),
        "save_s": round(median(saving), 2),
        "save_max_s": round(max(saving), 2),
        "read_s": round(median(reading), 2),
    }
    print(json.dumps(figures, indent=1))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
