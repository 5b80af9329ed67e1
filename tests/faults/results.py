"""Results of a run without its measurements: the same after any fault as without one."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from pathlib import Path
from typing import Any

MEASURED = {
    "metrics.jsonl": ("time", "samples_per_second", "data_ms", "seconds"),
    "metrics.csv": ("time", "samples_per_second", "data_ms", "seconds"),
    "timing.jsonl": (
        *("time", "ms", "sections", "samples_per_second", "frames_per_second"),
        *("data_share", "flops_per_second", "flop_utilisation"),
    ),
    "summary.json": ("model_seconds_per_frame", "seal"),  # the seal is over all of it
    # When and where a run was begun, each time.
    "run.json": ("starts", "updated"),
}
"""Keys and columns of files that hold measured values beside results."""

FROM_MEASURED = ("performance/", "compare/table.", "index.html", "report.html")
"""Below the results: tables, pictures and pages that are made of measured times and memory."""

_TOP = re.compile(rb"(?<=\")/[^\"]*(?=/results/data/)")

WITHOUT = ("logs/", "benchmarks/", "train/{preset}/memory.jsonl")
"""Of memory there is a line for every start."""


def results(folder: Path, preset: str = "tiny") -> dict[str, Any]:
    """Every result of a project by its path: a digest, or what stays without measured values."""
    contents: dict[str, Any] = {}
    top = folder / "results"
    for path in sorted(path for path in top.rglob("*") if path.is_file()):
        name = path.relative_to(top).as_posix()
        if name.startswith(tuple(pattern.format(preset=preset) for pattern in WITHOUT)):
            continue
        if path.suffix == ".lock":  # held while data are prepared; its contents say nothing
            continue
        contents[name] = None if name.startswith(FROM_MEASURED) else _contents(path)
    for run in (folder / "runs" / preset).iterdir():
        for name in ("weights.safetensors", "best.safetensors", "metrics.jsonl", "run.json"):
            contents[f"{run.name}/{name}"] = _contents(run / name)
        checkpoints = sorted(path.name for path in (run / "checkpoints").iterdir())
        contents[f"{run.name}/checkpoints"] = checkpoints
    return contents


def _contents(path: Path) -> Any:
    measured = MEASURED.get(path.name, ())
    # A data set is named by its whole path, here or where a project was copied from.
    text = _TOP.sub(b"<project>", path.read_bytes())
    if path.name == "metrics.csv":
        rows = [*csv.DictReader(text.decode().splitlines())]
        return [_without(row, measured) for row in rows]
    if path.suffix == ".jsonl":
        return [_without(json.loads(line), measured) for line in text.splitlines()]
    if measured:
        return _without(json.loads(text), measured)
    return hashlib.sha256(text).hexdigest()


def _without(record: dict[str, Any], measured: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in measured}


def leftovers(folder: Path) -> list[str]:
    """Temporary files of ours in a project."""
    hidden = [
        path for place in ("results", "runs", "data") for path in (folder / place).rglob(".*")
    ]
    names = (path.relative_to(folder).as_posix() for path in hidden)
    return sorted(name for name in names if not name.endswith("/.snakemake_timestamp"))
