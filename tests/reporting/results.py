"""Folders of results as the workflow leaves them, made by hand and small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd

from tests.helpers.published_runs import memory_lines, metric_lines, timing_lines, write_lines
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import write_json
from vrtspike.runs.identity import RunIdentity

HEIGHT, WIDTH = 36, 64


def picture(seed: int, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """Smooth colours that no other seed has, uint8 (H, W, 3)."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def write_picture(path: Path, image: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = image if image.ndim == 2 else image[..., ::-1]
    assert cv2.imencode(".png", stored)[0]
    path.write_bytes(cv2.imencode(".png", stored)[1].tobytes())


def make_run(results: Path, name: str, data: str = "gopro", **sections: Any) -> Path:
    """A published run with 40 logged steps and a validation every 20."""
    folder = results / "train" / name
    folder.mkdir(parents=True)
    settings = DeblurringSettings.model_validate(sections)
    dataset = results / "data" / data / "k32" / "dataset.json"
    RunIdentity(name, settings, str(dataset), f"print of {name}", "ab12" * 16).write(folder)
    record = {
        "status": "finished",
        "step": 40,
        "parameters": 1234567,
        "processes": 1,
        "precision": "bf16",
        "starts": [{"time": 0.0, "step": 0}],
        "environment": {
            "git": {"commit": "0123456789abcdef", "changed": False},
            "python": "3.11.7",
            "packages": {"torch": "2.11.0", "lpips": None},
            "host": "node7",
            "cpus": 8,
            "device": {"type": "cuda", "name": "H200", "memory_mb": 143_360, "cuda": "12.8"},
        },
    }
    write_json(folder / "run.json", record)
    lines = metric_lines(40, 30.0)
    lines.append({"kind": "validation", "step": 20, "psnr": 28.0, "ssim": 0.8, "time": 5.0})
    write_lines(folder / "metrics.jsonl", lines)
    write_lines(folder / "timing.jsonl", timing_lines(40))
    write_lines(folder / "memory.jsonl", memory_lines(gpu=True))
    (folder / "weights.safetensors").write_bytes(b"weights")
    return folder


def make_evaluation(
    results: Path,
    name: str,
    sequences: Sequence[str] = ("GOPR1", "GOPR2"),
    *,
    data: str = "gopro",
    gain: float = 4.0,
    spikes: bool = True,
    size: tuple[int, int] = (HEIGHT, WIDTH),
    **summary: Any,
) -> Path:
    """An evaluation with three frames of every sequence, all of them examples.

    The restored PSNR is 20 + the number of the frame over all, the blurry one ``gain`` less.
    """
    folder = results / "evaluate" / name
    rows, examples = [], []
    for number in range(3 * len(sequences)):
        sequence, frame = sequences[number // 3], f"{number % 3 + 1:06d}"
        row = {"sequence": sequence, "frame": frame}
        psnr = 20.0 + number
        values = {"psnr_blur": psnr - gain, "psnr": psnr, "lpips_blur": 0.5, "lpips": 0.25}
        if spikes:
            values |= {"psnr_spikes": 15.0, "lpips_spikes": 0.75}
        rows.append(row | values)
        shown = ("blurry", "restored", "sharp", *(("spikes",) if spikes else ()))
        files = {what: f"{sequence}/{frame}/{what}.png" for what in shown}
        for place, (what, file) in enumerate(files.items()):
            image = picture(10 * number + place, *size)
            gray = image[::2, ::2, 0] if what == "spikes" else image
            write_picture(folder / "examples" / file, gray)
        chosen = [("worst", "middle", "best")[number % 3]]
        entry = {"label": sequence, "chosen": chosen, "metrics": values, "files": files}
        examples.append(row | entry)
    frames = pd.DataFrame(rows)
    frames.to_csv(folder / "frames.csv", index=False)
    means = frames.groupby("sequence", sort=False).mean(numeric_only=True)
    means.insert(0, "frames", 3)
    means.reset_index().to_csv(folder / "sequences.csv", index=False)
    main = frames.mean(numeric_only=True)
    metrics = {
        "psnr": {"blurry": main["psnr_blur"], "restored": main["psnr"], "gain": gain},
        "lpips": {"blurry": 0.5, "restored": 0.25, "gain": 0.25},
    }
    contents = {
        "schema": 1,
        "preset": name,
        "fingerprint": f"print of {name}",
        "dataset": data,
        "split": "test",
        "blur_dir": "blur",
        "sequences": len(sequences),
        "frames": 3 * len(sequences),
        "metrics": metrics,
        "definitions": {"psnr": "PSNR in dB", "lpips": "LPIPS; lower is better"},
        "device": "cuda",
        "model_seconds_per_frame": 0.5,
        "spikes_alone": {"psnr": 15.0, "lpips": 0.75} if spikes else None,
        "spikes_alone_note": "rate in a window" if spikes else "the data set has no spikes",
        "worst": [{"sequence": sequences[0], "frame": "000001", "psnr": 20.0}],
    }
    write_json(folder / "summary.json", contents | summary)
    choice = "of every sequence the worst, the middle and the best"
    index = {"schema": 1, "choice": choice, "examples": examples}
    write_json(folder / "examples" / "examples.json", index)
    return folder


def make_alignment(results: Path, data: str = "gopro", rows: str | None = None) -> Path:
    """The table of a data set's alignment."""
    path = results / "data" / data / "alignment.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    header = "split,sequence,frame,t0,t1,spike_count,expected_center,center,correlation\n"
    usual = (
        "test,b,000001,0,88,9,40.0,39.0,0.9\n"
        "test,b,000002,88,176,9,40.0,42.0,0.7\n"
        "test,b,000003,176,264,9,40.0,,\n"
        "test,a,000001,0,88,9,40.0,40.5,0.95\n"
    )
    path.write_text(header + (usual if rows is None else rows))
    return path
