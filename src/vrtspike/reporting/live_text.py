"""The values of a run in words: the same on the page and in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vrtspike.analysis.run_measurements import Speed
from vrtspike.reporting.live_state import Snapshot
from vrtspike.reporting.performance_data import RATES
from vrtspike.system.progress_bar import duration_words, format_duration
from vrtspike.system.rounding import ceil_div

_BLOCKS = "▁▂▃▄▅▆▇█"
_CURVE_CELLS = 32


def live_heading(snapshot: Snapshot) -> str:
    """Preset, status, progress and fingerprint in a line."""
    steps = f"step {snapshot.step}"
    if snapshot.total_steps:
        share = snapshot.step / snapshot.total_steps
        steps += f" of {snapshot.total_steps} ({share:.0%})"
    failure = f": {snapshot.failure}" if snapshot.failure else ""
    return f"{snapshot.name}: {snapshot.status}, {steps}, run {snapshot.fingerprint}{failure}"


def live_facts(snapshot: Snapshot) -> dict[str, str]:
    """All values of a run that are known so far, by title: that of the value's curve, if any."""
    texts = {title: f"{value:.4g}" for title, value in snapshot.losses.items()}
    if snapshot.learning_rate is not None:
        texts["learning rate"] = f"{snapshot.learning_rate:.3g}"
    texts |= snapshot.validation
    if snapshot.samples_per_second is not None:
        texts[RATES["samples_per_second"]] = f"{snapshot.samples_per_second:.3g}"
    if math.isfinite(snapshot.speed.step_ms):
        texts["time of a step"] = _step_words(snapshot.speed)
    if snapshot.remaining_s is not None:
        texts["time left"] = format_duration(snapshot.remaining_s)
    if not snapshot.has_ended and snapshot.idle_s is not None:
        texts["last record"] = f"{duration_words(snapshot.idle_s)} ago"
    if snapshot.pictures:
        files = ", ".join(map(str, snapshot.pictures.values()))
        texts["pictures"] = f"after step {snapshot.pictures_step}: {files}"
    return texts


def _step_words(speed: Speed) -> str:
    """The time of a step and its parts."""
    parts = ", ".join(f"{name} {share:.0%}" for name, share in speed.step_parts.items())
    time = f"{speed.step_ms:.0f} ms"
    return f"{time} ({parts})" if parts else time


def text_lines(snapshot: Snapshot) -> list[str]:
    """The lines for a terminal: the heading, then a line of each value with its curve."""
    texts = live_facts(snapshot)
    curves = snapshot.curves["train"] | snapshot.curves["validation"]
    width = max(map(len, texts), default=0)
    lines = [live_heading(snapshot)]
    if not snapshot.losses:
        lines.append("no training step was logged")
    for title, text in texts.items():
        curve = curves.get(title)
        drawn = f"  {sparkline(curve['values'])}" if curve else ""
        lines.append(f"{title:<{width}}  {text}{drawn}")
    return lines


def sparkline(values: Sequence[float | None], cells: int = _CURVE_CELLS) -> str:
    """Draw a curve as a row of blocks, from the lowest to the highest value.

    Args:
        values: None for a value that is not finite, which is left out.
        cells: largest number of blocks; neighbouring values are averaged.

    >>> sparkline([0.0, None, 0.5, 1.0]), sparkline([3.0, 3.0]), sparkline([0, 0, 1, 1], cells=2)
    ('▁▄█', '▁▁', '▁█')
    """
    finite = [value for value in values if value is not None]
    width = max(1, ceil_div(len(finite), cells))
    groups = [finite[start : start + width] for start in range(0, len(finite), width)]
    means = [sum(group) / len(group) for group in groups]
    if not means:
        return ""
    low = min(means)
    span = (max(means) - low) or 1.0
    return "".join(_BLOCKS[int((len(_BLOCKS) - 1) * (mean - low) / span)] for mean in means)
