"""What the package knows of the presets' costs, out of the results of these benchmarks.

``src/vrtspike/deblurring/preset_costs.json`` holds of every preset the few figures that ``vrtspike
advise`` needs, because benchmark results are not installed. A test holds them together.

    python benchmarks/preset_costs.py            # writes it
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpus import GPUS
from preset_values import REPOSITORY, load
from presets import PRESETS
from vrtspike.deblurring.costs import FILE, model_digest
from vrtspike.io.files import read_json, write_json
from vrtspike.system import cli

RESULTS = REPOSITORY / "benchmarks/results"


def costs(results: Path) -> dict[str, Any]:
    """The contents of the file."""
    counted = read_json(results / "roofline.json")["rows"]
    timed = read_json(results / "presets_cpu.json")
    rows = {}
    for name in PRESETS:
        row, cpu = counted[name], timed["presets"][name]
        rows[name] = {
            "model": model_digest(load(name)),
            "clip": row["clip"],
            "parameters": cpu["parameters"],
            "tflop": round(cpu["tflop_per_clip"], 4),
            "kept_gib": round(row["kept_gib"], 3),
            "peak_gib": round(row["peak_gib"], 3),
            "ms": {gpu: round(ms, 1) for gpu, ms in row["ms"].items()},
        }
    demo = load("demo")
    rows["demo"] |= {
        "settings": demo.MODEL.model_dump(mode="json"),
        "bins": demo.DATA.NUM_VOXEL_BINS,
    }
    baseline = timed["presets"]["baseline"]
    clips, frames, _, height, width = baseline["timed_clip"]
    share = clips * frames * height * width
    for side in baseline["clip"]:
        share /= side
    rate = share * baseline["tflop_per_clip"] / baseline["seconds_per_clip"]
    return {
        "schema": 1,
        "gpus": {
            name: {"memory_gib": gpu.memory_gib, "bandwidth": gpu.bandwidth}
            for name, gpu in GPUS.items()
        },
        "cpu": {
            "tflops_per_thread": round(rate / timed["machine"]["threads"], 5),
            "name": timed["machine"]["device"],
            "threads": timed["machine"]["threads"],
        },
        "presets": rows,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file."""
    write_json(FILE, costs(RESULTS))
    print(FILE)
    return 0


if __name__ == "__main__":
    cli.run(main)
