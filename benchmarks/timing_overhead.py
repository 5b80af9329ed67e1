"""What timing costs: the time of the timing logger's own work as a share of a training step.

    python benchmarks/timing_overhead.py --device cpu --step-ms 400

A step of this project enters about 30 sections (data, forward with the model's stages, losses,
backward, optimiser). The program runs such steps around an empty body, with the logger on and off,
with files and summary, and divides the difference by the length of a real step. No body means no
noise from the body: what is left is the logger.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

from vrtspike.monitoring.timing import TimingLogger, section

LEAVES = (
    *("spike_encoder", "vrt/alignment"),
    *(f"spike_attention/scale{n}" for n in range(1, 5)),
    *(f"vrt/stage{n}" for n in range(1, 9)),
    *(f"vrt/fusion{n}" for n in range(1, 5)),
)


def step() -> int:
    """Enter the sections of one training step; returns how many there were."""
    with section("step"):
        with section("data"):
            pass
        with section("forward"):
            for name in LEAVES:
                with section(name):
                    pass
        with section("loss"), section("charbonnier"):
            pass
        with section("backward"):
            for name in LEAVES:
                with section(name):
                    pass
        with section("optimizer"):
            pass
    return 2 * len(LEAVES) + 7


def milliseconds(timing: TimingLogger, steps: int, device: torch.device) -> float:
    """Median time of a step without a body."""
    found = []
    with timing.activate():
        for number in range(1, steps + 1):
            start = time.perf_counter()
            step()
            timing.step(number, 1, 5)
            found.append(1e3 * (time.perf_counter() - start))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return median(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--step-ms", type=float, default=400.0, help="length of a real step")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    with tempfile.TemporaryDirectory() as folder:
        enabled = TimingLogger(folder, device, console=False)
        on = milliseconds(enabled, arguments.steps, device)
        enabled.close()
        disabled = TimingLogger(folder, device, enabled=False)
        off = milliseconds(disabled, arguments.steps, device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    figures = {
        "device": name,
        "sections_per_step": step(),
        "enabled_ms": round(on, 4),
        "disabled_ms": round(off, 4),
        "step_ms": arguments.step_ms,
        "enabled_percent": round(100 * on / arguments.step_ms, 4),
        "disabled_percent": round(100 * off / arguments.step_ms, 4),
    }
    print(json.dumps(figures, indent=1))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
