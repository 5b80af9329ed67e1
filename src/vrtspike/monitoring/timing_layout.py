"""Layout of section times: console block, plain line, text file, summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

ROOT = "step"
"""The section of a whole training step; texts show its children at the top level."""

BAR_CELLS = 30
SLOWEST = 5
_RULE = "=" * 80
_FIGURES = ("mean", "min", "max", "p50", "p95")


class StepTimes:
    """The times of one step: a complete tree of paths to milliseconds.

    Args:
        number: the step's number.
        measured: milliseconds per path. A parent that was not measured is the sum of its children.
    """

    def __init__(self, number: int, measured: Mapping[str, float]) -> None:
        self.number = number
        self.times = dict(measured)
        for path, ms in measured.items():
            parent = path.rpartition("/")[0]
            while parent and parent not in measured:
                self.times[parent] = self.times.get(parent, 0.0) + ms
                parent = parent.rpartition("/")[0]

    @property
    def total(self) -> float:
        """Milliseconds of all top-level sections; nothing is counted twice."""
        return sum(ms for path, ms in self.times.items() if "/" not in path)

    def children(self, parent: str) -> list[str]:
        """Paths directly under ``parent`` ("" is the top), in order of their first appearance."""
        return [path for path in self.times if path.rpartition("/")[0] == parent]

    def top_level(self) -> list[tuple[str, str, float]]:
        """(label, path, ms) of a text's top level: :data:`ROOT` is replaced by its children and
        ``other``, the rest of its time."""
        rows: list[tuple[str, str, float]] = []
        for path in self.children(""):
            inner = self.children(path) if path == ROOT else []
            if not inner:
                rows.append((path, path, self.times[path]))
                continue
            rows += [(child.removeprefix(ROOT + "/"), child, self.times[child]) for child in inner]
            rest = self.times[path] - sum(self.times[child] for child in inner)
            rows.append(("other", "", max(0.0, rest)))
        return rows


def step_text(step: StepTimes, averages: Mapping[str, float]) -> str:
    """One step in the text file.

    Args:
        step: the times of the step.
        averages: mean milliseconds per path over the run so far.
    """
    total = step.total
    lines = [_RULE, f"Step {step.number}", _RULE]
    for label, path, ms in step.top_level():
        average = averages.get(path)
        tail = "" if average is None else f" [avg: {average:8.2f}ms]"
        lines.append(f"{label:<40}: {ms:8.2f}ms ({_percent(ms, total):5.1f}%){tail}")
        if path:
            lines += _children_text(step, path, averages, 1)
    lines += [f"{'Total':-<40}: {total:8.2f}ms", "", ""]
    return "\n".join(lines)


def _children_text(
    step: StepTimes, parent: str, averages: Mapping[str, float], depth: int
) -> list[str]:
    lines = []
    for path in step.children(parent):
        label = "  " * depth + "- " + path.rpartition("/")[2]
        average = averages.get(path, step.times[path])
        lines.append(f"{label:<40}: {step.times[path]:8.2f}ms [avg: {average:8.2f}ms]")
        lines += _children_text(step, path, averages, depth + 1)
    return lines


def _percent(ms: float, total: float) -> float:
    return 100.0 * ms / total if total > 0 else 0.0


def _slowest(step: StepTimes) -> list[tuple[str, float]]:
    entries = [(p.removeprefix(ROOT + "/"), ms) for p, ms in step.times.items() if p != ROOT]
    return sorted(entries, key=lambda entry: -entry[1])[:SLOWEST]


def console_block(step: StepTimes) -> list[str]:
    """The rows of the console block: title, the slowest entries with bars, the total."""
    total = step.total
    rows = [f"┌─ Timing Profile (Step {step.number}) ".ljust(49, "─")]
    for name, ms in _slowest(step):
        percent = _percent(ms, total)
        filled = min(BAR_CELLS, int(BAR_CELLS * percent / 100))
        bar = "█" * filled + "░" * (BAR_CELLS - filled)
        rows.append(f"│ {name:<28} {bar} {ms:8.1f}ms {percent:4.1f}%")
    rows.append(f"└─ Total: {total:8.1f}ms ".ljust(57, "─"))
    return rows


def console_line(step: StepTimes) -> str:
    """The same on one line, for consoles that cannot be redrawn."""
    total = step.total
    parts = [f"{name} {ms:.1f}ms {_percent(ms, total):.0f}%" for name, ms in _slowest(step)]
    return f"timing step {step.number}: total {total:.1f}ms | " + " | ".join(parts)


@dataclass(frozen=True)
class Arithmetic:
    """Floating-point operations of a run.

    Attributes:
        flops_per_sample: of one training sample, forward and backward, estimated from the forward
            pass; interpolation is not counted.
        peak_flops_per_second: what a large matrix product reaches on the devices of the run.
    """

    flops_per_sample: float
    peak_flops_per_second: float

    def rates(self, samples_per_second: float) -> dict[str, float]:
        """FLOP/s at a throughput, and the share of the peak (model FLOP utilisation).

        >>> Arithmetic(3.0, 24.0).rates(4.0)
        {'flops_per_second': 12, 'flop_utilisation': 0.5}
        """
        rate = samples_per_second * self.flops_per_sample
        return {
            "flops_per_second": round(rate),
            "flop_utilisation": round(rate / self.peak_flops_per_second, 6),
        }


def summarize(
    history: Mapping[str, Sequence[float]],
    steps: int,
    samples: int,
    frames: int,
    work: Arithmetic | None = None,
) -> dict[str, object]:
    """Statistics of a whole run.

    Args:
        history: milliseconds per path, one value for each step in which it occurred.
        steps: number of steps.
        samples: samples processed in all of them.
        frames: frames processed in all of them.
        work: arithmetic of a sample, where it is known.

    Returns:
        ``sections``: per path ``count``, ``mean``, ``min``, ``max``, ``p50``, ``p95`` in
        milliseconds; ``steps``; ``samples_per_second`` and ``frames_per_second`` over the time of
        the steps; ``data_share``: the part of that time that waited for data; with ``work`` also
        ``flops_per_second`` and ``flop_utilisation``.
    """
    sections: dict[str, dict[str, float]] = {}
    for path in tree_order(history):
        ms = np.asarray(history[path], dtype=np.float64)
        figures = [ms.mean(), *np.percentile(ms, [0, 100, 50, 95])]
        named = zip(_FIGURES, figures, strict=True)
        sections[path] = {"count": len(ms), **{name: round(float(v), 4) for name, v in named}}
    seconds = _total_ms(sections, ROOT) / 1e3
    data = _total_ms(sections, ROOT + "/data") / 1e3
    return {
        "steps": steps,
        "sections": sections,
        **({} if work is None or not seconds else work.rates(samples / seconds)),
        "samples_per_second": round(samples / seconds, 4) if seconds else 0.0,
        "frames_per_second": round(frames / seconds, 4) if seconds else 0.0,
        "data_share": round(data / seconds, 6) if seconds else 0.0,
    }


def tree_order(paths: Iterable[str]) -> list[str]:
    """Paths with parents before their children, siblings in order of their first appearance.

    >>> tree_order(["step/b/first", "step/a", "step/b/last", "step"])
    ['step', 'step/b/first', 'step/b/last', 'step/a']
    """
    known = list(paths)
    lineages = {path: list(accumulate(path.split("/"), "{}/{}".format)) for path in known}
    first: dict[str, int] = {}
    for path in known:
        for ancestor in lineages[path]:
            first.setdefault(ancestor, len(first))
    return sorted(known, key=lambda path: [first[ancestor] for ancestor in lineages[path]])


def _total_ms(sections: Mapping[str, Mapping[str, float]], path: str) -> float:
    entry = sections.get(path)
    return entry["mean"] * entry["count"] if entry else 0.0


def summary_text(summary: Mapping[str, object]) -> str:
    """The result of :func:`summarize` as a table."""
    head = f"{'name':<44}{'count':>7}" + "".join(f"{column:>10}" for column in _FIGURES)
    lines = [_RULE, f"Timing summary, {summary['steps']} steps (milliseconds)", _RULE, head]
    sections = summary["sections"]
    assert isinstance(sections, dict)
    for path, row in sections.items():
        figures = "".join(f"{row[key]:10.2f}" for key in _FIGURES)
        lines.append(f"{path:<44}{row['count']:>7}{figures}")
    lines.append(
        f"{summary['samples_per_second']:.3f} samples/s, {summary['frames_per_second']:.3f} "
        f"frames/s, {100 * float(str(summary['data_share'])):.2f} % of the step waited for data"
    )
    if "flops_per_second" in summary:
        lines.append(
            f"about {float(str(summary['flops_per_second'])) / 1e12:.4g} TFLOP/s, "
            f"{100 * float(str(summary['flop_utilisation'])):.1f} % of what a matrix product "
            "reaches on this device"
        )
    return "\n".join(lines)
