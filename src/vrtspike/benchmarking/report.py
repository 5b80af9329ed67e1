"""A benchmark as a text for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from vrtspike.benchmarking.benchmark import NAMES, Benchmark
from vrtspike.benchmarking.ratio import CONFIDENCE, Ratio, quartiles

SCHEMA = 1


def benchmark_text(found: Benchmark) -> str:
    """Lines for a person, with a newline at the end."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Benchmark) -> Iterator[str]:
    length, first = found.length, found.before[0]
    yield f"{found.preset} on {first.device}"
    for key, (before, after) in found.settings.items():
        yield f"  {key}: {before} -> {after}"
    yield (
        f"{length.turns} turns of each, {length.steps} steps of a turn timed after {length.warm_up}"
    )
    yield from found.notes
    yield ""
    memory = "GPU memory" if first.on_gpu else "memory"
    yield f"{'':<10}{'s a step':>10}{'middle half':>22}{memory:>14}"
    for name, turns in zip(NAMES, (found.before, found.after), strict=True):
        times = quartiles([s for turn in turns for s in turn.step_s])
        half = f"{times.low:.4g} to {times.high:.4g}"
        peak = f"{max(turn.memory_mb for turn in turns):.0f} MB"
        yield f"{name:<10}{times.median:>10.4g}{half:>22}{peak:>14}"
    yield ""
    samples, changed = found.samples
    if samples == changed:
        yield _verdict("ratio of step times", found.step_ratio)
    else:
        yield f"samples of a step: {samples:g} as it is, {changed:g} changed"
        yield _verdict("ratio of step times", found.step_ratio, judged=False)
        yield _verdict("ratio of times per sample", found.sample_ratio)


def _verdict(name: str, ratio: Ratio, *, judged: bool = True) -> str:
    interval = f"{100 * CONFIDENCE:.0f} %: {ratio.low:.3f} to {ratio.high:.3f}"
    figures = f"{name}: {ratio.value:.3f} ({interval})"
    if not judged:
        return figures
    if not ratio.is_seen:
        return f"{figures}; no difference seen"
    if ratio.value > 1:
        return f"{figures}; changed is {ratio.value:.2f} x as fast"
    return f"{figures}; changed is slower: {1 / ratio.value:.2f} x the time"


def benchmark_json(found: Benchmark) -> dict[str, Any]:
    """All figures, with the time of each step, as a JSON value."""
    return {
        "schema": SCHEMA,
        "preset": found.preset,
        "settings": {key: list(values) for key, values in found.settings.items()},
        "device": found.before[0].device,
        "length": asdict(found.length),
        "notes": list(found.notes),
        "sides": {
            name: {
                "seconds_per_step": asdict(quartiles([s for t in turns for s in t.step_s])),
                "samples_per_step": samples,
                "peak_memory_mb": round(max(turn.memory_mb for turn in turns), 1),
                "memory_of": "gpu" if turns[0].on_gpu else "processes",
                "step_s": [list(turn.step_s) for turn in turns],
            }
            for name, turns, samples in zip(
                NAMES, (found.before, found.after), found.samples, strict=True
            )
        },
        "confidence": CONFIDENCE,
        "ratio_of_step_times": asdict(found.step_ratio),
        "ratio_of_times_per_sample": asdict(found.sample_ratio),
        "difference_seen": found.sample_ratio.is_seen,
    }
