"""A regression guard: figures of runs against those of a baseline file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.compare import Candidate, comparison_table, metrics_of
from vrtspike.analysis.evaluations import OWN_PROTOCOL, test_frames
from vrtspike.config.problems import Metric, all_metrics
from vrtspike.errors import RunError, list_faults
from vrtspike.io.files import read_json, write_json

SCHEMA = 1

LARGER_IS_BETTER = {
    "samples/s": True,
    "forward ms": False,
    "step ms": False,
    "waits for data": False,
    "memory MB": False,
    "GPU peak MB": False,
}
"""Figures of speed and memory; they are those of a machine, and judged only if asked for."""

_TOLERANCE = re.compile(r"(?P<name>.+)=(?P<value>\d+(\.\d*)?|\.\d+)(?P<percent>%?)")


@dataclass(frozen=True)
class Tolerance:
    """By how much a figure may be worse.

    Attributes:
        value: in the figure's unit, or a share of the stored one.
        relative: whether it is a share.
    """

    value: float
    relative: bool = False

    def of(self, stored: float) -> float:
        """In the figure's unit."""
        return self.value * abs(stored) if self.relative else self.value

    def __str__(self) -> str:
        """As a person reads it."""
        return f"{100 * self.value:g} %" if self.relative else f"{self.value:g}"


DEFAULT_TOLERANCES = {
    "psnr": Tolerance(0.05),
    "psnr_y": Tolerance(0.05),
    "ssim": Tolerance(0.001),
    "lpips": Tolerance(0.002),
}
DEFAULT_TOLERANCE = Tolerance(0.01, relative=True)
"""Of metrics without a default."""


def parse_tolerances(texts: Iterable[str]) -> dict[str, Tolerance]:
    """Tolerances of a command line, such as ``psnr=0.1`` or ``samples/s=10%``, by figure.

    Raises:
        RunError: if a text is of another form, or there is no such figure.

    >>> {name: str(found) for name, found in parse_tolerances(["psnr=0.1", "step ms=5%"]).items()}
    {'psnr': '0.1', 'step ms': '5 %'}
    """
    found: dict[str, Tolerance] = {}
    known = [*all_metrics(), *LARGER_IS_BETTER]
    for text in texts:
        match = _TOLERANCE.fullmatch(text)
        if match is None or match["name"] not in known:
            raise RunError(
                f"--tolerance {text}: expected NAME=NUMBER or NAME=NUMBER%, NAME one of: "
                f"{', '.join(known)}"
            )
        relative = bool(match["percent"])
        found[match["name"]] = Tolerance(float(match["value"]) / (100 if relative else 1), relative)
    return found


def write_baseline(path: Path, candidates: Sequence[Candidate]) -> None:
    """Keep the figures of these runs; those of other runs in the file stay.

    Raises:
        RunError: if the file is there and no baseline, two runs are of one preset, or a run has
            no figures of quality.
    """
    runs = _read(path) if path.exists() else {}
    _require_presets(candidates)
    for candidate in candidates:
        if candidate.evaluation is None:
            raise RunError(
                f"{candidate.run.name}: not evaluated with these weights, there is no quality to "
                f"keep; run: snakemake evaluate_{candidate.preset}"
            )
        figures = {name: v for name, v in _figures(candidate).items() if v is not None}
        runs[candidate.preset] = {
            "fingerprint": candidate.run.fingerprint,
            "test_frames": test_frames(candidate.evaluation),
            "figures": figures,
        }
    write_json(path, {"schema": SCHEMA, "runs": runs})


def below_baseline(
    path: Path, candidates: Sequence[Candidate], tolerances: Mapping[str, Tolerance]
) -> list[str]:
    """What is worse than the baseline, a line each; nothing where all is well.

    Every metric that the baseline has is judged, figures of speed and memory only where there is
    a tolerance for them. A figure that is no longer measured is worse, too, and so is one of other
    test frames.

    Args:
        path: the baseline.
        candidates: the runs.
        tolerances: by metric (``psnr``) or figure (``samples/s``); others have their defaults.

    Raises:
        RunError: if the file is no baseline, has nothing of a run, or two are of one preset.
    """
    runs = _read(path)
    _require_presets(candidates)
    unknown = [c.preset for c in candidates if c.preset not in runs]
    if unknown:
        raise RunError(
            list_faults(
                f"{path}: runs that it does not hold",
                unknown,
                f"It holds: {', '.join(runs) or 'none'}; add them with --write-baseline {path}",
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


def _tolerance(name: str, given: Mapping[str, Tolerance]) -> Tolerance | None:
    metric = _metric(name)
    if metric is None:
        return given.get(name)
    return given.get(metric.name, DEFAULT_TOLERANCES.get(metric.name, DEFAULT_TOLERANCE))


def _metric(name: str) -> Metric | None:
    """The metric whose result a figure is, such as ``psnr restored``; None for another figure.

    Of any protocol: ``psnr (vrt) restored`` is one, too.
    """
    results = {f"{metric.name} {metric.after}": metric for metric in all_metrics().values()}
    return results.get(re.sub(r" \(\w+\)", "", name))


def _check_frames(candidate: Candidate, stored: Mapping[str, Any]) -> list[str]:
    """Whether the figures are of the frames that the baseline's are of."""
    kept = stored.get("test_frames")
    if kept is None or candidate.evaluation is None:
        return []
    kept = {"protocol": OWN_PROTOCOL, **kept}
    return [
        f"{candidate.preset}: evaluated on other frames than the baseline ({key}: {value}, the "
        f"baseline's {kept.get(key)}); its figures do not compare"
        for key, value in test_frames(candidate.evaluation).items()
        if value != kept.get(key)
    ]


def _check_figure(
    run: str, name: str, value: float | None, stored: float, tolerance: Tolerance
) -> list[str]:
    if value is None:
        return [f"{run}: {name}: no longer measured, the baseline is {stored:g}"]
    metric = _metric(name)
    larger = LARGER_IS_BETTER[name] if metric is None else metric.larger_is_better
    worse = stored - value if larger else value - stored
    if worse <= tolerance.of(stored):
        return []
    return [
        f"{run}: {name}: {value:.6g}, the baseline is {stored:.6g}: worse by {worse:.3g}, "
        f"{tolerance} is allowed"
    ]


def _figures(candidate: Candidate) -> dict[str, float | None]:
    """What can be guarded: every metric of the model's results, speed and memory."""
    row = comparison_table([candidate], metrics_of([candidate])).iloc[0]
    names = [c for c in row.index if _metric(c) is not None or c in LARGER_IS_BETTER]
    return {name: None if pd.isna(row[name]) else float(row[name]) for name in names}


def _read(path: Path) -> dict[str, Any]:
    """The runs of a baseline, by name."""
    try:
        found = read_json(path)
    except FileNotFoundError as error:
        raise RunError(f"{path}: no such file; make it with --write-baseline {path}") from error
    except ValueError as error:
        raise RunError(f"{path}: no baseline, no JSON ({error}); name another file") from error
    runs = found.get("runs") if isinstance(found, dict) else None
    if not isinstance(runs, dict) or found.get("schema") != SCHEMA:
        raise RunError(f"{path}: no baseline of runs; give another file")
    return runs
