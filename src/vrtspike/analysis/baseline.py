"""Regression tests: the figures of runs compared with those of a baseline file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.compare import Candidate, comparison_table, metrics_of
from vrtspike.analysis.evaluations import OWN_PROTOCOL, test_frames
from vrtspike.config.problems import Metric, all_metrics
from vrtspike.errors import RunError, list_faults
from vrtspike.io.files import read_mapping, write_json

SCHEMA = 1

LARGER_IS_BETTER = {
    "samples/s": True,
    "forward ms": False,
    "step ms": False,
    "waits for data": False,
    "memory MB": False,
    "GPU peak MB": False,
}
"""Figures of speed and memory, which depend on the machine; compared only with a tolerance."""

_TOLERANCE = re.compile(r"(\d+(\.\d*)?|\.\d+)%?")

DEFAULT_TOLERANCES = {"psnr": "0.05", "psnr_y": "0.05", "ssim": "0.001", "lpips": "0.002"}
"""How much worse a metric may be: in its unit, or in per cent of the stored figure."""
DEFAULT_TOLERANCE = "1%"
"""Tolerance of other metrics."""


def parse_tolerances(texts: Iterable[str]) -> dict[str, str]:
    """Tolerances by figure from a command line, such as ``psnr=0.1`` or ``samples/s=10%``.

    Raises:
        RunError: if a text is invalid, or its figure is unknown.

    >>> parse_tolerances(["psnr=0.1", "step ms=5%"])
    {'psnr': '0.1', 'step ms': '5%'}
    """
    found: dict[str, str] = {}
    known = [*all_metrics(), *LARGER_IS_BETTER]
    for text in texts:
        name, _, tolerance = text.rpartition("=")
        if name not in known or not _TOLERANCE.fullmatch(tolerance):
            raise RunError(
                f"--tolerance {text}: expected NAME=NUMBER or NAME=NUMBER%, NAME one of: "
                f"{', '.join(known)}"
            )
        found[name] = tolerance
    return found


def write_baseline(path: Path, candidates: Sequence[Candidate]) -> None:
    """Write the figures of these runs; other runs in the file are kept.

    Raises:
        RunError: if the file exists and is no baseline, two runs are of one preset, or a run was
            not evaluated.
    """
    runs = _read(path) if path.exists() else {}
    _require_presets(candidates)
    for candidate in candidates:
        if candidate.evaluation is None:
            raise RunError(
                f"{candidate.run.name}: found no evaluation of these weights; run: "
                f"snakemake evaluate_{candidate.preset}"
            )
        figures = {name: v for name, v in _figures(candidate).items() if v is not None}
        runs[candidate.preset] = {
            "fingerprint": candidate.run.fingerprint,
            "test_frames": test_frames(candidate.evaluation),
            "figures": figures,
        }
    write_json(path, {"schema": SCHEMA, "runs": runs})


def below_baseline(
    path: Path, candidates: Sequence[Candidate], tolerances: Mapping[str, str]
) -> list[str]:
    """A line for each figure that is worse than the baseline.

    All metrics of the baseline are compared, figures of speed and memory only with a tolerance. A
    figure that is missing, or of other test frames, counts as worse.

    Args:
        path: the baseline.
        candidates: the runs.
        tolerances: by metric (``psnr``) or figure (``samples/s``), from
            :func:`parse_tolerances`; metrics have defaults.

    Raises:
        RunError: if the file is no baseline, lacks a run, or two runs are of one preset.
    """
    runs = _read(path)
    _require_presets(candidates)
    unknown = [c.preset for c in candidates if c.preset not in runs]
    if unknown:
        raise RunError(
            list_faults(
                f"{path}: missing runs",
                unknown,
                f"Found: {', '.join(runs) or 'none'}; add them with --write-baseline {path}",
            )
        )
    found: list[str] = []
    for candidate in candidates:
        found += _check_frames(candidate, runs[candidate.preset])
        figures = _figures(candidate)
        for name, stored in runs[candidate.preset]["figures"].items():
            tolerance = _tolerance(name, tolerances)
            if tolerance is not None:
                found += _check_figure(candidate.preset, name, figures.get(name), stored, tolerance)
    return found


def _require_presets(candidates: Sequence[Candidate]) -> None:
    presets = [candidate.preset for candidate in candidates]
    if len(set(presets)) < len(presets):
        raise RunError(
            f"a baseline keeps one run of a preset, found: {', '.join(presets)}; give each once"
        )


def _tolerance(name: str, given: Mapping[str, str]) -> str | None:
    metric = _metric(name)
    if metric is None:
        return given.get(name)
    return given.get(metric.name, DEFAULT_TOLERANCES.get(metric.name, DEFAULT_TOLERANCE))


def _metric(name: str) -> Metric | None:
    """The metric of a figure such as ``psnr restored`` or ``psnr (vrt) restored``; else None."""
    results = {f"{metric.name} {metric.after}": metric for metric in all_metrics().values()}
    return results.get(re.sub(r" \(\w+\)", "", name))


def _check_frames(candidate: Candidate, stored: Mapping[str, Any]) -> list[str]:
    """A line for each difference between the test frames and the baseline's."""
    kept = stored.get("test_frames")
    if kept is None or candidate.evaluation is None:
        return []
    kept = {"protocol": OWN_PROTOCOL, **kept}
    return [
        f"{candidate.preset}: evaluated on other frames than the baseline ({key}: {value}, the "
        f"baseline's {kept.get(key)}); its figures cannot be compared"
        for key, value in test_frames(candidate.evaluation).items()
        if value != kept.get(key)
    ]


def _check_figure(
    run: str, name: str, value: float | None, stored: float, tolerance: str
) -> list[str]:
    if value is None:
        return [f"{run}: {name}: no longer measured, the baseline is {stored:g}"]
    metric = _metric(name)
    larger = LARGER_IS_BETTER[name] if metric is None else metric.larger_is_better
    worse = stored - value if larger else value - stored
    number = float(tolerance.removesuffix("%"))
    if worse <= (number * abs(stored) / 100 if tolerance.endswith("%") else number):
        return []
    return [
        f"{run}: {name}: {value:.6g}, the baseline is {stored:.6g}: worse by {worse:.3g}, "
        f"{tolerance} is allowed"
    ]


def _figures(candidate: Candidate) -> dict[str, float | None]:
    """All figures of a baseline: metrics of the results, speed and memory."""
    row = comparison_table([candidate], metrics_of([candidate])).iloc[0]
    names = [c for c in row.index if _metric(c) is not None or c in LARGER_IS_BETTER]
    return {name: None if pd.isna(row[name]) else float(row[name]) for name in names}


def _read(path: Path) -> dict[str, Any]:
    """The runs of a baseline, by name."""
    if not path.is_file():
        raise RunError(f"{path}: no such file; write it with --write-baseline {path}")
    found = read_mapping(path, "give another file")
    runs = found.get("runs")
    if not isinstance(runs, dict) or found.get("schema") != SCHEMA:
        raise RunError(f"{path}: no baseline of runs; give another file")
    return runs
