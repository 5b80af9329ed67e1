"""Text logs of the training scripts that came before this project, read like a run's own.

Four layouts are known, which may stand in one file or in several: blocks of a timing logger (ruled
``Step 42``, a line for each section, ``Total``; this project's ``timing_*.log`` has the same), the
prints of its debugging version (``[VRT] Stage 1 ... 234.56ms``), lines of progress (``step
950/8880 | loss=0.1 | 0.5 samples/s | data_time=0.1ms``), and lines of memory and cache.

Names of sections are translated into those of this project. In those logs sections that contain
each other stand side by side, so that their ``Total`` counts the forward pass twice; here a section
is put below the one that contains it, and the total is left alone. Their clocks stood on the host:
on a GPU they time launches rather than work.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from vrtspike.analysis.figures import BACKWARD, DATA, FORWARD, RunFigures, run_figures
from vrtspike.analysis.findings import find
from vrtspike.analysis.performance import Analysis
from vrtspike.analysis.run_logs import (
    MEMORY_COLUMNS,
    STEP_COLUMNS,
    TIMING_COLUMNS,
    TRAIN_COLUMNS,
    VALIDATION_COLUMNS,
    RunLogs,
)
from vrtspike.deblurring.metrics.registry import METRICS
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import RunError
from vrtspike.monitoring.timing_layout import ROOT
from vrtspike.runs.published import PublishedRun

_VRT = f"{FORWARD}/vrt"
_SECTIONS = {
    "前向传播总耗时": FORWARD,
    "VRT处理": _VRT,
    "VRT处理与融合": _VRT,
    "VRT融合": f"{_VRT}/fusion",
    "Spike编码器": f"{FORWARD}/spike_encoder",
    "Spike时间自注意力": f"{FORWARD}/spike_attention",
    "反向传播": BACKWARD,
    "反向传播总耗时": BACKWARD,
    "数据加载": DATA,
    "梯度同步": f"{ROOT}/sync",
    "损失计算": f"{ROOT}/loss",
    "优化器": f"{ROOT}/optimizer",
    "Optimizer": f"{ROOT}/optimizer",
}
_OWN = ("data", "forward", "loss", "backward", "sync", "optimizer", "other")
_PARTS = {"维度转换": "layout", "Self-Attention": "attention", "FFN": "feed_forward"}

_PROGRESS_COLUMNS = ("samples_per_second", "data_ms")

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
# Possessive: a block that was cut off would else be tried in all ways to divide its spaces.
_BLOCK = re.compile(r"^ *Step (\d+)\s*\n((?: *+(?!Step |Total).*\n)*+) *Total", re.MULTILINE)
_SECTION = re.compile(r"^( *)(?:- )?(\S.*?)\s*: *([\d.]+)ms", re.MULTILINE)
_PRINTED = re.compile(r"\[(?:VRT\] Stage (\d+)\b.*?|主模型\] (\S+?)总)耗时: ([\d.]+)ms")
_PRINTED_END = re.compile(r"^\s*前向传播总耗时: ([\d.]+)ms\s*$", re.MULTILINE)
_HOST_CLOCKS = "总耗时"
"""Stands in all times of the older scripts and in none of this project."""
_PROGRESS = re.compile(r"\bstep (\d+)/\d+ \|(.*)")
_FIELDS = {
    "loss": re.compile(rf"\b(?:loss|total)[=: ]+({_NUMBER})", re.IGNORECASE),
    "lr": re.compile(rf"\blr[=: ]+({_NUMBER})", re.IGNORECASE),
    "grad_norm": re.compile(rf"\bgrad_norm[=: ]+({_NUMBER})"),
    "samples_per_second": re.compile(rf"({_NUMBER}) samples/s"),
    "data_ms": re.compile(rf"\bdata_time[=: ]+({_NUMBER}) ?ms"),
}
_MEMORY = re.compile(
    r"\[(?:Step (?P<step>\d+)|After dataset creation)\] Memory - Process: (?P<process>[\d.]+)MB"
    r".*System: [\d.]+/(?P<total>[\d.]+)GB \((?P<percent>[\d.]+)%\)"
    r"|- Hit Rate: (?P<rate>[\d.]+)%"
)


def _block_times(text: str) -> Iterator[tuple[int, str, float]]:
    """Step, section and milliseconds of each line in complete blocks of a timing logger."""
    for step, block in _BLOCK.findall(text):
        parents: dict[int, str] = {}
        for indent, name, ms in _SECTION.findall(block):
            parents = {depth: path for depth, path in parents.items() if depth < len(indent)}
            inner = f"{[*parents.values()][-1]}/{_part(name)}" if parents else _section(name)
            parents[len(indent)] = inner
            yield int(step), inner, float(ms)


def _printed_times(text: str) -> Iterator[tuple[int, str, float]]:
    """The same of each printed forward pass, which stands for a step."""
    pieces = _PRINTED_END.split(text)
    for number, (body, ms) in enumerate(zip(pieces[::2], pieces[1::2], strict=False), start=1):
        yield number, FORWARD, float(ms)
        for stage, part, part_ms in _PRINTED.findall(body):
            name = f"{_VRT}/stage{stage}" if stage else _section(part)
            yield number, name, float(part_ms)


def _progress(text: str) -> list[dict[str, float]]:
    rows = []
    for step, line in _PROGRESS.findall(text):
        found = {name: match for name, f in _FIELDS.items() if (match := f.search(line))}
        rows.append({"step": int(step)} | {name: float(m[1]) for name, m in found.items()})
    return rows


def _memory(text: str) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    for line in _MEMORY.finditer(text):
        if line["process"]:
            rows.append(
                {
                    "step": int(line["step"] or 0),
                    "process_mb": float(line["process"]),
                    "children_mb": 0.0,
                    "system_percent": float(line["percent"]),
                    "system_total_mb": float(line["total"]) * 1024,
                }
            )
        elif rows:
            rows[-1]["cache.hit_rate"] = float(line["rate"]) / 100
    return rows


def _section(name: str) -> str:
    """A section at the top of a block, as this project calls it."""
    if name in _OWN:
        return f"{ROOT}/{name}"
    return _SECTIONS.get(name, name)


def _part(name: str) -> str:
    stage = re.fullmatch(r"Stage ?(\d+)", name)
    return f"stage{stage[1]}" if stage else _PARTS.get(name, name.replace("/", " "))


def old_log_files(path: Path) -> list[Path]:
    """The text logs that a path names: itself, or those in a folder or in its ``logs``."""
    if path.is_file():
        return [path]
    for folder in (path, path / "logs"):
        for patterns in (("timing_*.log", "train_*.log"), ("*.log",)):
            if found := [file for pattern in patterns for file in sorted(folder.glob(pattern))]:
                return found
    return []


def _read_text(path: Path) -> str:
    """All text logs that a path names."""
    files = old_log_files(path)
    if not files:
        raise RunError(
            f"{path}: neither a run (results/train/<preset>, runs/<preset>/<fingerprint>) nor a "
            "text log (train_*.log, timing_*.log), nor a folder with one"
        )
    return "\n".join(file.read_text(encoding="utf-8-sig", errors="replace") for file in files)


def _table(rows: list[dict[str, float]], columns: Iterable[str]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    for column in columns:
        if column not in table:
            table[column] = pd.Series(dtype=float)
    return table.drop_duplicates("step", keep="last").sort_values("step").reset_index(drop=True)


def _with_whole_steps(timing: pd.DataFrame) -> pd.DataFrame:
    """Steps as a section of their own, where more than the forward pass was timed."""
    timing = timing.groupby(["step", "section"], sort=False, as_index=False).sum()
    parts = timing[timing["section"].str.fullmatch(f"{ROOT}/[^/]+")]
    known = timing[timing["section"] != f"{ROOT}/other"]
    if not (parts["section"] == BACKWARD).any():
        return known
    whole = parts.groupby("step", as_index=False)["ms"].sum().assign(section=ROOT)
    joined = pd.concat([known, whole[TIMING_COLUMNS]])
    return joined.sort_values("step", kind="stable").reset_index(drop=True)


def analyze_old_logs(path: Path, settings: Settings | None = None) -> Analysis:
    """Analyse text logs.

    Args:
        path: a log, or a folder with several.
        settings: what the run was trained with; None for the defaults, which a note says.

    Raises:
        RunError: if there are none, or nothing in them is known.
    """
    text = _read_text(path)
    timing, progress, memory = (
        [*_block_times(text), *_printed_times(text)],
        _progress(text),
        _memory(text),
    )
    if not (timing or progress or memory):
        raise RunError(
            f"{path}: no line of a known layout; expected blocks of times ('Step 1', "
            "'forward : 280.00ms ( 45.2%)'), 'step 1/100 | ... samples/s' or 'Memory - Process:'"
        )
    logs = RunLogs(
        timing=_with_whole_steps(pd.DataFrame(timing, columns=TIMING_COLUMNS)),
        steps=pd.DataFrame(columns=STEP_COLUMNS),
        train=_table([row for row in progress if "loss" in row], TRAIN_COLUMNS),
        validation=pd.DataFrame(columns=VALIDATION_COLUMNS),
        memory=_table(memory, MEMORY_COLUMNS),
        gpu_categories={},
    )
    known = Settings() if settings is None else settings
    figures = run_figures(logs, 1, METRICS)
    figures = _with_progress(figures, _table(progress, ("step", *_PROGRESS_COLUMNS)))
    notes = []
    if _HOST_CLOCKS in text:
        notes.append("The clocks of this log stood on the host: on a GPU they time launches.")
    timed = set(logs.timing["section"])
    if FORWARD in timed and BACKWARD not in timed:
        notes.append("Only the forward pass was timed; the backward pass takes longer than it.")
    if settings is None:
        notes.append("Its settings are not known: findings take the defaults (--settings FILE).")
    run = PublishedRun(path.stem, known, "", "")
    return Analysis(run, logs, figures, find(figures, known), tuple(notes))


def _with_progress(figures: RunFigures, progress: pd.DataFrame) -> RunFigures:
    """Figures that only lines of progress give, the first of which is left out as a warm-up."""
    means = {
        name: float(values.iloc[1 if len(values) > 1 else 0 :].mean())
        for name in _PROGRESS_COLUMNS
        if len(values := progress[name].dropna())
    }
    speed = figures.speed
    data, share = speed.data_ms, speed.data_share
    if math.isnan(data):
        data = means.get("data_ms", math.nan)
    if math.isnan(share):
        share = data / (data + speed.step_ms)
    rate = means.get("samples_per_second", math.nan)
    return replace(
        figures,
        speed=replace(speed, data_ms=data, data_share=share, samples_per_second=rate),
    )
