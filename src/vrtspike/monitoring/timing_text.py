"""Layout of section times: console block, plain line, text file, summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

STEP_SECTION = "step"
"""The section of a whole training step; texts show its children at the top level."""

BAR_CELLS = 30
SLOWEST = 5
_RULE = "=" * 80


def with_parents(measured: Mapping[str, float]) -> dict[str, float]:
    """Return the milliseconds per path; a parent that was not measured is the sum of its children.

    >>> with_parents({"step/vrt/a": 1.0, "step/vrt/b": 2.0, "step": 4.0})
    {'step/vrt/a': 1.0, 'step/vrt/b': 2.0, 'step': 4.0, 'step/vrt': 3.0}
    """
    times = dict(measured)
    for path, ms in measured.items():
        parent = path.rpartition("/")[0]
        while parent and parent not in measured:
            times[parent] = times.get(parent, 0.0) + ms
            parent = parent.rpartition("/")[0]
    return times


def tree_order(paths: Iterable[str]) -> list[str]:
    """Sort paths: parents before their children, siblings by their first appearance.

    >>> tree_order(["step/b/first", "step/a", "step/b/last", "step"])
    ['step', 'step/b/first', 'step/b/last', 'step/a']
    """
    lineages = {path: list(accumulate(path.split("/"), "{}/{}".format)) for path in paths}
    first: dict[str, int] = {}
    for lineage in lineages.values():
        for ancestor in lineage:
            first.setdefault(ancestor, len(first))
    return sorted(lineages, key=lambda path: [first[ancestor] for ancestor in lineages[path]])


def _total(times: Mapping[str, float]) -> float:
    """Return the milliseconds of all top-level sections; nothing is counted twice."""
    return sum(ms for path, ms in times.items() if "/" not in path)


def _percent(ms: float, total: float) -> float:
    return 100.0 * ms / total if total > 0 else 0.0


def step_text(step: int, times: Mapping[str, float], averages: Mapping[str, float]) -> str:
    """Format one step for the text file.

    Children of :data:`STEP_SECTION` are at the top level, with ``other``, the rest of its time.

    Args:
        step: number of the step.
        times: milliseconds per path, with all parents.
        averages: mean milliseconds per path over the run so far.
    """
    total = _total(times)
    shown = dict(times)
    children = [ms for path, ms in times.items() if path.rpartition("/")[0] == STEP_SECTION]
    if children:
        shown[f"{STEP_SECTION}/other"] = max(0.0, shown.pop(STEP_SECTION) - sum(children))
    lines = [_RULE, f"Step {step}", _RULE]
    for path in tree_order(shown):
        *parents, name = path.removeprefix(f"{STEP_SECTION}/").split("/")
        label = f"{'  ' * len(parents)}- {name}" if parents else name
        share = "" if parents else f" ({_percent(shown[path], total):5.1f}%)"
        average = f" [avg: {averages[path]:8.2f}ms]" if path in averages else ""
        lines.append(f"{label:<40}: {shown[path]:8.2f}ms{share}{average}")
    return "\n".join([*lines, f"{'Total':-<40}: {total:8.2f}ms", "", ""])


def console_text(step: int, times: Mapping[str, float]) -> tuple[list[str], str]:
    """Format the slowest entries of a step, as rows with bars and as a plain line.

    Args:
        step: number of the step.
        times: milliseconds per path, with all parents.
    """
    total = _total(times)
    rows = [f"┌─ Timing Profile (Step {step}) ".ljust(49, "─")]
    parts = []
    entries = [
        (path.removeprefix(f"{STEP_SECTION}/"), ms)
        for path, ms in times.items()
        if path != STEP_SECTION
    ]
    for name, ms in sorted(entries, key=lambda entry: -entry[1])[:SLOWEST]:
        percent = _percent(ms, total)
        bar = ("█" * int(BAR_CELLS * percent / 100)).ljust(BAR_CELLS, "░")
        rows.append(f"│ {name:<28} {bar} {ms:8.1f}ms {percent:4.1f}%")
        parts.append(f"{name} {ms:.1f}ms {percent:.0f}%")
    rows.append(f"└─ Total: {total:8.1f}ms ".ljust(57, "─"))
    return rows, f"timing step {step}: total {total:.1f}ms | " + " | ".join(parts)


class FlopEstimate(NamedTuple):
    """Floating-point operations of a run.

    Attributes:
        flops_per_sample: FLOPs of one training sample, forward and backward, estimated from the
            forward pass; interpolation is not counted.
        peak_flops_per_second: rate of a large matrix product on the devices of the run.
    """

    flops_per_sample: float
    peak_flops_per_second: float


def summarize(
    history: Mapping[str, Sequence[float]],
    totals: Mapping[str, int],
    arithmetic: FlopEstimate | None = None,
) -> dict[str, Any]:
    """Return statistics of a whole run.

    Args:
        history: milliseconds per path, one value for each step in which it occurred.
        totals: ``steps``, and ``samples`` and ``frames`` processed in them.
        arithmetic: operations of a sample and peak of the device, where these are known.

    Returns:
        ``sections``: per path ``count``, ``mean``, ``min``, ``max``, ``p50``, ``p95`` in
        milliseconds; ``steps``; ``samples_per_second`` and ``frames_per_second`` over the time of
        all steps, also the first one; ``data_share``: the part of that time that waited for data;
        with ``arithmetic`` also ``flops_per_second`` and ``flop_utilisation``.
    """
    sections: dict[str, dict[str, float]] = {}
    for path in tree_order(history):
        ms = np.asarray(history[path], dtype=np.float64)
        statistics = np.round([ms.mean(), *np.percentile(ms, [0, 100, 50, 95])], 4).tolist()
        names = ("mean", "min", "max", "p50", "p95")
        sections[path] = {"count": len(ms), **dict(zip(names, statistics, strict=True))}
    seconds = sum(history.get(STEP_SECTION, ())) / 1e3
    data_seconds = sum(history.get(f"{STEP_SECTION}/data", ())) / 1e3

    def per_second(value: float) -> float:
        return value / seconds if seconds else 0.0

    samples_per_second = per_second(totals["samples"])
    summary: dict[str, Any] = {
        "steps": totals["steps"],
        "sections": sections,
        "samples_per_second": round(samples_per_second, 4),
        "frames_per_second": round(per_second(totals["frames"]), 4),
        "data_share": round(per_second(data_seconds), 6),
    }
    if arithmetic is not None and seconds:
        rate = samples_per_second * arithmetic.flops_per_sample
        summary["flops_per_second"] = round(rate)
        summary["flop_utilisation"] = round(rate / arithmetic.peak_flops_per_second, 6)
    return summary


def summary_text(summary: Mapping[str, Any]) -> str:
    """Format the result of :func:`summarize` as a table."""
    # Imported here, because the import takes time and a run shows its summary once.
    import pandas as pd

    table = pd.DataFrame.from_dict(summary["sections"], orient="index")
    lines = [
        _RULE,
        # The report page leaves the first step out.
        f"Timing summary, {summary['steps']} steps with the first (milliseconds)",
        _RULE,
        table.astype({"count": int}).to_string(float_format="%.2f"),
        f"{summary['samples_per_second']:.3f} samples/s, {summary['frames_per_second']:.3f} "
        f"frames/s, {100 * summary['data_share']:.2f} % of the step waited for data",
    ]
    if "flops_per_second" in summary:
        lines.append(
            f"about {summary['flops_per_second'] / 1e12:.4g} TFLOP/s, "
            f"{100 * summary['flop_utilisation']:.1f} % of what a matrix product reaches on this "
            "device"
        )
    return "\n".join(lines)
