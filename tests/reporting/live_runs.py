"""The folder of a run that is training, as its training leaves it between two steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from tests.helpers.published_runs import metric_lines, timing_lines, write_lines
from tests.reporting.results import picture, write_picture
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import write_json
from vrtspike.runs.identity import RunIdentity

fetch = build_opener(ProxyHandler({})).open
"""Opens an address of this machine, without the proxy that the environment may name."""

STEPS = 10
TOTAL = 100


def make_live_run(folder: Path) -> Path:
    """A run of 100 steps after step 10, a second each, and a validation with a picture."""
    identity = RunIdentity(
        "demo", DeblurringSettings.model_validate({}), "dataset.json", "0123456789ab", "d"
    )
    identity.write(folder)
    note_status(folder, "running")
    lines = metric_lines(STEPS, 30.0)
    lines.append({"kind": "validation", "step": 5, "psnr": 31.5, "ssim": 0.8, "time": 5.5})
    lines.sort(key=lambda line: line["step"])
    write_lines(folder / "metrics.jsonl", lines)
    write_lines(folder / "logs/timing_1.jsonl", timing_lines(STEPS))
    for step in (5, STEPS):
        write_picture(folder / f"pictures/step_{step:08d}_restored.png", picture(step))
    return folder


def note_status(folder: Path, status: str, **facts: Any) -> None:
    """Write ``run.json``."""
    record = {
        "status": status,
        "step": 0,
        "total_steps": TOTAL,
        "starts": [{"time": 0.0, "step": 0, "host": "node7"}],
    }
    write_json(folder / "run.json", record | facts)


def append_step(folder: Path, step: int, **values: Any) -> None:
    """Log another step of the run."""
    line: Mapping[str, Any] = {**metric_lines(step, 0.0)[step - 1], **values}
    append_text(folder, json.dumps(line) + "\n")


def append_text(folder: Path, text: str) -> None:
    """Append to ``metrics.jsonl``."""
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write(text)
