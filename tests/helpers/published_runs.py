"""Published runs with logs as training writes them: the fixture `publish` of several packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import write_json
from vrtspike.runs.identity import RunIdentity

Publish = Callable[..., Path]


def timing_lines(steps: int) -> list[dict[str, Any]]:
    """A slow first step, then steps of 1000 ms with two samples of three frames."""
    lines = []
    for step in range(1, steps + 1):
        data = 5000.0 if step == 1 else 300.0
        ms = {
            "step/data": data,
            "step/forward/vrt/stage1": 50.0,
            "step/forward/vrt/stage8": 150.0,
            "step/forward/vrt": 210.0,
            "step/forward": 220.0,
            "step/backward": 400.0,
            "step": 700.0 + data,
        }
        lines.append(
            {"kind": "step", "step": step, "time": 1.0 * step, "samples": 2, "frames": 6, "ms": ms}
        )
    return [*lines, {"kind": "summary", "steps": steps, "sections": {}}]


def metric_lines(steps: int, psnr: float) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [
        {
            "kind": "train", "step": step, "epoch": 1, "loss": 1.0 / step, "lr": 1e-3,
            "losses": {"charbonnier": 1.0 / step}, "grad_norm": 2.0, "skipped": False,
            "samples_per_second": 2.0, "data_ms": 300.0, "time": 1.0 * step,
        }
        for step in range(1, steps + 1)
    ]  # fmt: skip
    lines.append({"kind": "validation", "step": steps, "psnr": psnr, "ssim": 0.9, "time": 9.0})
    return lines


def memory_lines(gpu: bool) -> list[dict[str, Any]]:
    line: dict[str, Any] = {
        "kind": "memory", "step": 2, "time": 2.0, "process_mb": 900, "children_mb": 100,
        "system_used_mb": 4000, "system_total_mb": 10_000, "system_percent": 40.0, "gpu": None,
        "cache": {"hit_rate": 0.5},
    }  # fmt: skip
    categories = {
        "kind": "gpu_categories",
        "parameters_mb": 90.0,
        "activations_mb": None,
        "peak_mb": None,
    }
    if gpu:
        line["gpu"] = {
            "allocated_mb": 8000,
            "reserved_mb": 9000,
            "peak_mb": 10_000,
            "total_mb": 80_000,
        }
        categories |= {"activations_mb": 9500.0, "peak_mb": 10_000.0}
    return [line, categories]


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """Make the result folder of a finished run."""

    def make(name: str = "slow", psnr: float = 30.0, gpu: bool = False, **sections: Any) -> Path:
        folder = tmp_path / "train" / name
        folder.mkdir(parents=True)
        settings = DeblurringSettings.model_validate(sections)
        RunIdentity(name, settings, "dataset.json", f"fingerprint of {name}", "d").write(folder)
        record = {"status": "finished", "step": 5, "parameters": 1234567}
        write_json(folder / "run.json", record)
        write_lines(folder / "timing.jsonl", timing_lines(5))
        write_lines(folder / "metrics.jsonl", metric_lines(5, psnr))
        write_lines(folder / "memory.jsonl", memory_lines(gpu))
        return folder

    return make
