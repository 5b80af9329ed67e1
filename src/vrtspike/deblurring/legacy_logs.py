"""Text logs of the training scripts before this project, read like the logs of a run.

Four layouts are supported, in one file or in several: blocks of a timing logger (``Step 42``
between rules, a line for each section, ``Total``; ``timing_*.log`` of this project has the same
layout), the prints of its debugging version (``[VRT] Stage 1 ... 234.56ms``), lines of progress
(``step 950/8880 | loss=0.1 | 0.5 samples/s | data_time=0.1ms``), and lines of memory and cache.

Section names are translated into those of this project. Those logs list nested sections on one
level, so that their ``Total`` counts the forward pass twice; here a section is nested in the one
that contains it, and the total is ignored. Those scripts measured host time: on a GPU, the time of
launches rather than of computation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from vrtspike.analysis.diagnosis.findings import diagnose_run
from vrtspike.analysis.performance import RunAnalysis
from vrtspike.analysis.run_logs import STEP_COLUMNS, TIMING_COLUMNS, RunLogs
from vrtspike.analysis.run_measurements import Speed, measure_run
from vrtspike.analysis.section_times import BACKWARD, DATA, FORWARD
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.metrics.registry import METRICS
from vrtspike.monitoring.timing_text import STEP_SECTION
from vrtspike.runs.published import PublishedRun
from vrtspike.system.errors import RunError

_VRT = f"{FORWARD}/vrt"
_PARTS_OF_STEP = ("data", "forward", "loss", "backward", "sync", "optimizer", "other")
_SECTIONS = {name: f"{STEP_SECTION}/{name}" for name in _PARTS_OF_STEP} | {
    "前向传播总耗时": FORWARD,
    "VRT处理": _VRT,
    "VRT处理与融合": _VRT,
    "VRT融合": f"{_VRT}/fusion",
    "Spike编码器": f"{FORWARD}/spike_encoder",
    "Spike时间自注意力": f"{FORWARD}/spike_attention",
    "反向传播": BACKWARD,
    "反向传播总耗时": BACKWARD,
    "数据加载": DATA,
    "梯度同步": f"{STEP_SECTION}/sync",
    "损失计算": f"{STEP_SECTION}/loss",
    "优化器": f"{STEP_SECTION}/optimizer",
    "Optimizer": f"{STEP_SECTION}/optimizer",
}
"""Names in this project of the sections at the top of a block, also of its own blocks."""
_INNER_SECTIONS = {"维度转换": "layout", "Self-Attention": "attention", "FFN": "feed_forward"}

_NUMBER = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"
# Possessive quantifiers, because a truncated block would otherwise be tried in all ways to divide
# its spaces.
_BLOCK = re.compile(r"^ *Step (\d+)\s*\n((?: *+(?!Step |Total).*\n)*+) *Total", re.MULTILINE)
_SECTION = re.compile(r"^( *)(?:- )?(\S.*?)\s*: *([\d.]+)ms", re.MULTILINE)
_PRINTED = re.compile(r"\[(?:VRT\] Stage (\d+)\b.*?|主模型\] (\S+?)总)耗时: ([\d.]+)ms")
_PRINTED_END = re.compile(r"^\s*前向传播总耗时: ([\d.]+)ms\s*$", re.MULTILINE)
_HOST_CLOCKS = "总耗时"
"""Text that occurs in all times of the older scripts, and in none of this project."""
_PROGRESS = re.compile(r"\bstep (\d+)/\d+ \|(.*)")
_FIELDS = {
    "loss": rf"(?i)\b(?:loss|total)[=: ]+{_NUMBER}",
    "lr": rf"(?i)\blr[=: ]+{_NUMBER}",
    "grad_norm": rf"\bgrad_norm[=: ]+{_NUMBER}",
    "samples_per_second": rf"{_NUMBER} samples/s",
    "data_ms": rf"\bdata_time[=: ]+{_NUMBER} ?ms",
}
_MEMORY = re.compile(
    r"\[(?:Step (?P<step>\d+)|After dataset creation)\] Memory - Process: (?P<process_mb>[\d.]+)MB"
    r".*System: [\d.]+/(?P<total_gb>[\d.]+)GB \((?P<system_percent>[\d.]+)%\)"
    r"|- Hit Rate: (?P<hit_percent>[\d.]+)%"
)


def _block_times(text: str) -> Iterator[tuple[int, str, float]]:
    """Read step, section and milliseconds of each line in complete blocks of a timing logger."""
    for step, block in _BLOCK.findall(text):
        parents: dict[int, str] = {}
        for indent, name, ms in _SECTION.findall(block):
            # Sections of smaller indent, the innermost last.
            parents = {depth: path for depth, path in parents.items() if depth < len(indent)}
            if parents:
                parent = list(parents.values())[-1]
                section = f"{parent}/{_inner_section(name)}"
            else:
                section = _SECTIONS.get(name, name)
            parents[len(indent)] = section
            yield int(step), section, float(ms)


def _printed_times(text: str) -> Iterator[tuple[int, str, float]]:
    """Read step, section and milliseconds of each printed forward pass, which counts as a step."""
    pieces = _PRINTED_END.split(text)
    bodies = pieces[::2]
    totals = pieces[1::2]
    # The text after the last forward pass has no total.
    for step, (body, total_ms) in enumerate(zip(bodies, totals, strict=False), start=1):
        yield step, FORWARD, float(total_ms)
        for stage, name, ms in _PRINTED.findall(body):
            section = f"{_VRT}/stage{stage}" if stage else _SECTIONS.get(name, name)
            yield step, section, float(ms)


def _progress(text: str) -> pd.DataFrame:
    """Read the values of each step in lines of progress, as text: a loss may be "nan"."""
    lines = pd.DataFrame(_PROGRESS.findall(text), columns=["step", "line"], dtype=str)
    fields = {name: lines["line"].str.extract(pattern)[0] for name, pattern in _FIELDS.items()}
    return _by_step(pd.DataFrame({"step": lines["step"].astype(int), **fields}))


def _memory(text: str) -> pd.DataFrame:
    """Read the values of each step in lines of memory, and of the cache lines that follow."""
    rows = [match.groupdict() for match in _MEMORY.finditer(text)]
    table = pd.DataFrame(rows, columns=[*_MEMORY.groupindex], dtype=float)
    before_training = table["step"].isna() & table["process_mb"].notna()
    return _by_step(
        table.assign(
            step=table["step"].mask(before_training, 0).ffill(),
            children_mb=0.0,
            system_total_mb=table["total_gb"] * 1024,
            **{"cache.hit_rate": table["hit_percent"] / 100},
        )
    )


def _by_step(table: pd.DataFrame) -> pd.DataFrame:
    """Keep the last values of each step."""
    return table.groupby("step", as_index=False).last()


def _inner_section(name: str) -> str:
    """Translate the name of a section within another one."""
    stage = re.fullmatch(r"Stage ?(\d+)", name)
    if stage:
        return f"stage{stage[1]}"
    return _INNER_SECTIONS.get(name, name.replace("/", " "))


def old_log_files(path: Path) -> list[Path]:
    """Find text logs: a file itself, or those in a folder or in its ``logs``.

    Raises:
        RunError: if there are none.
    """
    if path.is_file():
        return [path]
    for folder in (path, path / "logs"):
        for patterns in (("timing_*.log", "train_*.log"), ("*.log",)):
            files = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
            if files:
                return files
    raise RunError(
        f"{path}: neither a run (results/train/<preset>, runs/<preset>/<fingerprint>) nor a "
        "text log (train_*.log, timing_*.log), nor a folder with one"
    )


def _with_whole_steps(timing: pd.DataFrame) -> pd.DataFrame:
    """Add whole steps as a section, if more than the forward pass was timed."""
    timing = timing.groupby(["step", "section"], sort=False, as_index=False).sum()
    parts = timing[timing["section"].str.fullmatch(f"{STEP_SECTION}/[^/]+")]
    sections = timing[timing["section"] != f"{STEP_SECTION}/other"]
    if not (parts["section"] == BACKWARD).any():
        return sections
    whole = parts.groupby("step", as_index=False)["ms"].sum().assign(section=STEP_SECTION)
    joined = pd.concat([sections, whole[TIMING_COLUMNS]])
    return joined.sort_values("step", kind="stable").reset_index(drop=True)


def analyze_old_logs(path: Path, settings: DeblurringSettings | None = None) -> RunAnalysis:
    """Analyse text logs.

    Args:
        path: a log, or a folder with several.
        settings: settings of the run; None takes the defaults, and adds a note.

    Raises:
        RunError: if there are no logs, none of a known layout, or a value is garbled.
    """
    files = old_log_files(path)
    text = "\n".join(file.read_text(encoding="utf-8-sig", errors="replace") for file in files)
    try:
        times = [*_block_times(text), *_printed_times(text)]
        progress = _progress(text)
        memory = _memory(text)
    except ValueError as error:
        raise RunError(
            f"{path}: a value is not a number ({error}); correct that line, or remove its step"
        ) from error
    if not times and progress.empty and memory.empty:
        raise RunError(
            f"{path}: no line of a known layout; expected blocks of times ('Step 1', "
            "'forward : 280.00ms ( 45.2%)'), 'step 1/100 | ... samples/s' or 'Memory - Process:'"
        )
    logs = RunLogs(
        timing=_with_whole_steps(pd.DataFrame(times, columns=TIMING_COLUMNS)),
        steps=pd.DataFrame(columns=STEP_COLUMNS),
        train=progress.dropna(subset="loss").astype(float),
        validation=pd.DataFrame(),
        memory=memory,
    )
    measurements = measure_run(logs, 1, METRICS)
    speed = _with_progress(measurements.speed, progress)
    measurements = replace(measurements, speed=speed)
    notes = _notes(text, logs.timing)
    if settings is None:
        notes.append("Its settings are not known: findings take the defaults (--settings FILE).")
        settings = DeblurringSettings()
    run = PublishedRun(path.stem, settings, "", "")
    findings = diagnose_run(measurements, settings)
    return RunAnalysis(run, logs, measurements, findings, tuple(notes))


def _notes(text: str, timing: pd.DataFrame) -> list[str]:
    """Return notes on times that do not measure what their names suggest.

    Args:
        text: contents of the log files.
        timing: rows of ``section``.
    """
    notes = []
    if _HOST_CLOCKS in text:
        notes.append("The clocks of this log stood on the host: on a GPU they time launches.")
    sections = set(timing["section"])
    if FORWARD in sections and BACKWARD not in sections:
        notes.append("Only the forward pass was timed; the backward pass takes longer than it.")
    return notes


def _with_progress(speed: Speed, progress: pd.DataFrame) -> Speed:
    """Add the values of lines of progress; the first line is left out as a warm-up."""
    steady = progress[["samples_per_second", "data_ms"]].tail(max(len(progress) - 1, 1))
    samples_per_second, data_ms = steady.astype(float).mean()
    if not math.isnan(speed.data_ms):
        data_ms = speed.data_ms
    data_share = speed.data_share
    if math.isnan(data_share):
        data_share = data_ms / (data_ms + speed.step_ms)
    return replace(
        speed, data_ms=data_ms, data_share=data_share, samples_per_second=samples_per_second
    )
