"""What tiles of a preset's model need: expected, as `vrtspike restore` does, and measured.

    python benchmarks/restore_memory.py --tiles demo:256 baseline:128 \
        --output benchmarks/results/restore_memory.json

On a CPU a process grows by more than its tensors: `CPU_OVERHEAD` in
`deblurring/evaluation/tile_memory.py` makes up for that, so that no tile should take more than
expected. Each is restored in a process of its own; on a GPU small tiles are tried for real.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

import torch

from vrtspike.deblurring.evaluation.tile_memory import measure_tile_memory
from vrtspike.deblurring.preset import build_network
from vrtspike.deblurring.settings.loading import load_video_preset
from vrtspike.files import write_json


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiles", nargs="+", default=["demo:256"], metavar="PRESET:SIDE")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    rows = []
    for tile in arguments.tiles:
        preset, _, side = tile.partition(":")
        with multiprocessing.get_context("spawn").Pool(1) as process:
            case = (preset, int(side), arguments.device, arguments.precision)
            rows.append(process.apply(measure, case))
        print(json.dumps(rows[-1]))
    if arguments.output:
        write_json(arguments.output, {"torch": torch.__version__, "tiles": rows})


def measure(preset: str, side: int, device_name: str, precision: str) -> dict[str, Any]:
    """Restore one tile of random numbers, and what it took."""
    settings = load_video_preset(Path(f"config/presets/{preset}.yaml"))
    device, dtype = torch.device(device_name), getattr(torch, precision)
    model = build_network(settings, pretrained=False).eval().to(device)
    frames, bins = settings.DATA.CLIP_LEN, settings.DATA.K
    need = measure_tile_memory(model, bins, frames, device, dtype)

    def restore(size: int) -> None:
        half = dtype != torch.float32
        blur = torch.rand(1, frames, 3, size, size, device=device)
        voxels = torch.rand(1, frames, bins, size, size, device=device)
        with torch.inference_mode(), torch.autocast(device.type, dtype, enabled=half):
            model(blur, voxels)

    restore(16)
    before, started = _peak(device), time.perf_counter()
    restore(side)
    grown, seconds = _peak(device) - before, time.perf_counter() - started
    pixels = side * side * frames
    return {
        "preset": preset,
        "side": side,
        "device": device.type,
        "precision": precision,
        "expected_bytes_per_pixel": round(need.per_pixel),
        "measured_bytes_per_pixel": round(grown / pixels),
        "seconds": round(seconds, 2),
    }


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
