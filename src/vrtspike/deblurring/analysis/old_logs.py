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

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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

PATTERNS = ("timing_*.log", "train_*.log", "*.log")
"""Names of such logs in a folder; of the first that matches, all."""

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
_OUTSIDE = ("validation", "checkpoint")
"""What this project's own logs time beside steps."""
_PARTS = {"维度转换": "layout", "Self-Attention": "attention", "FFN": "feed_forward"}

_PROGRESS_COLUMNS = ("samples_per_second", "data_ms")

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
_STEP = re.compile(r"Step (\d+)")
_TOP = re.compile(r"(?P<name>\S.*?)\s*: *(?P<ms>[\d.]+)ms \( *[\d.]+%\)(?: \[avg: *[\d.]+ms\])?")
_CHILD = re.compile(r"(?P<indent> +)- (?P<name>.+?)\s*: *(?P<ms>[\d.]+)ms(?: \[avg: *[\d.]+ms\])?")
_TOTAL = re.compile(r"Total-*\s*: *[\d.]+ms")
_PROGRESS = re.compile(r".*?\bstep (\d+)/\d+ \|(.*)")
_FIELDS = {
    "loss": re.compile(rf"\b(?:loss|total)[=: ]+({_NUMBER})", re.IGNORECASE),
    "lr": re.compile(rf"\blr[=: ]+({_NUMBER})", re.IGNORECASE),
    "grad_norm": re.compile(rf"\bgrad_norm[=: ]+({_NUMBER})"),
    "samples_per_second": re.compile(rf"({_NUMBER}) samples/s"),
    "data_ms": re.compile(rf"\bdata_time[=: ]+({_NUMBER}) ?ms"),
}
_MEMORY = re.compile(
    r".*\[(?:Step (?P<step>\d+)|After dataset creation)\] Memory - Process: (?P<process>[\d.]+)MB"
    r".*System: (?P<used>[\d.]+)/(?P<total>[\d.]+)GB \((?P<percent>[\d.]+)%\)"
)
_HITS = re.compile(
    r".*- Hit Rate: (?P<rate>[\d.]+)% \((?P<hits>\d+) hits / (?P<misses>\d+) misses\)"
)
_PRINTED = re.compile(
    r"\s*\[(?:VRT\] Stage (?P<stage>\d+)\b.*?|主模型\] (?P<part>\S+?)总)耗时: (?P<ms>[\d.]+)ms.*"
)
_PRINTED_END = re.compile(r"前向传播总耗时: (?P<ms>[\d.]+)ms")


@dataclass(frozen=True)
class OldLogs:
    """What text logs hold.

    Attributes:
        logs: in the form of a run's own; losses where lines of progress name them.
        progress: ``step``, ``samples_per_second`` and ``data_ms`` of lines of progress.
        host_clocks: whether another program's clocks took the times.
    """

    logs: RunLogs
    progress: pd.DataFrame
    host_clocks: bool


@dataclass
class _Reading:
    """What was read so far."""

    timing: list[tuple[int, str, float]] = field(default_factory=list)
    train: list[dict[str, Any]] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)
    step: int | None = None
    names: set[str] = field(default_factory=set)
    lineage: list[tuple[int, str]] = field(default_factory=list)
    printed: dict[str, float] = field(default_factory=dict)
    forwards: int = 0

    def line(self, text: str) -> None:
        """Take in a line of a log."""
        if match := _STEP.fullmatch(text.strip()):
            self.step, self.lineage = int(match[1]), []
        elif _TOTAL.fullmatch(text):
            self.step = None
        elif self.step is not None and self._section(self.step, text):
            return
        elif match := _PROGRESS.fullmatch(text):
            self._progress(int(match[1]), match[2])
        elif match := _MEMORY.fullmatch(text):
            self._memory(match)
        elif (match := _HITS.fullmatch(text)) and self.memory:
            self.memory[-1]["cache.hit_rate"] = float(match["rate"]) / 100
        elif match := _PRINTED.fullmatch(text):
            name = f"{_VRT}/stage{match['stage']}" if match["stage"] else _section(match["part"])
            self.printed[name] = self.printed.get(name, 0.0) + float(match["ms"])
        elif match := _PRINTED_END.fullmatch(text.strip()):
            self._forward(float(match["ms"]))

    def _section(self, step: int, text: str) -> bool:
        if match := _TOP.fullmatch(text):
            self.names.add(match["name"])
            name = _section(match["name"])
            self.lineage = [(0, name)]
        elif match := _CHILD.fullmatch(text):
            depth = len(match["indent"])
            while self.lineage and self.lineage[-1][0] >= depth:
                self.lineage.pop()
            if not self.lineage:
                return False
            name = f"{self.lineage[-1][1]}/{_part(match['name'])}"
            self.lineage.append((depth, name))
        else:
            return False
        self.timing.append((step, name, float(match["ms"])))
        return True

    def _progress(self, step: int, text: str) -> None:
        found = {name: match for name, f in _FIELDS.items() if (match := f.search(text))}
        self.train.append({"step": step} | {name: float(m[1]) for name, m in found.items()})

    def _memory(self, match: re.Match[str]) -> None:
        self.memory.append(
            {
                "step": int(match["step"] or 0),
                "process_mb": float(match["process"]),
                "children_mb": 0.0,
                "system_percent": float(match["percent"]),
                "system_total_mb": float(match["total"]) * 1024,
            }
        )

    def _forward(self, ms: float) -> None:
        """The end of one printed forward pass, which stands for a step."""
        self.forwards += 1
        self.names.add("前向传播总耗时")
        rows = {FORWARD: ms, **self.printed}
        self.timing += [(self.forwards, name, value) for name, value in rows.items()]
        self.printed = {}


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
        for pattern in PATTERNS:
            if found := sorted(folder.glob(pattern)):
                train = sorted(folder.glob("train_*.log")) if pattern.startswith("timing") else []
                return [*found, *train]
    return []


def read_old_logs(path: Path) -> OldLogs:
    """Read text logs.

    Args:
        path: a log, or a folder with several.

    Raises:
        RunError: if there are none, or nothing in them is known.
    """
    files = old_log_files(path)
    if not files:
        raise RunError(
            f"{path}: neither a run (results/train/<preset>, runs/<preset>/<fingerprint>) nor a "
            "text log (train_*.log, timing_*.log), nor a folder with one"
        )
    reading = _Reading()
    for file in files:
        reading.step = None
        try:
            text = file.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise RunError(f"{file}: cannot be read ({error.strerror})") from error
        for line in text.splitlines():
            reading.line(line.rstrip())
    if not (reading.timing or reading.train or reading.memory):
        raise RunError(
            f"{path}: no line of a known layout; expected blocks of times ('Step 1', "
            "'forward : 280.00ms ( 45.2%)'), 'step 1/100 | ... samples/s' or 'Memory - Process:'"
        )
    with_loss = [row for row in reading.train if "loss" in row]
    logs = RunLogs(
        timing=_with_whole_steps(pd.DataFrame(reading.timing, columns=TIMING_COLUMNS)),
        steps=pd.DataFrame(columns=STEP_COLUMNS),
        train=_table(with_loss, TRAIN_COLUMNS),
        validation=pd.DataFrame(columns=VALIDATION_COLUMNS),
        memory=_table(reading.memory, MEMORY_COLUMNS),
        gpu_categories={},
    )
    progress = _table(reading.train, ("step", *_PROGRESS_COLUMNS))
    return OldLogs(logs, progress, not reading.names <= {*_OWN, *_OUTSIDE})


def _table(rows: list[dict[str, Any]], columns: Iterable[str]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    for column in columns:
        if column not in table:
            table[column] = pd.Series(dtype=float)
    return table.drop_duplicates("step", keep="last").sort_values("step").reset_index(drop=True)


def _with_whole_steps(timing: pd.DataFrame) -> pd.DataFrame:
    """Steps as a section of their own, where more than the forward pass was timed."""
    parts = timing[timing["section"].str.fullmatch(f"{ROOT}/[^/]+")]
    if not (parts["section"] == BACKWARD).any():
        return timing[timing["section"] != f"{ROOT}/other"]
    whole = parts.groupby("step", as_index=False)["ms"].sum().assign(section=ROOT)
    joined = pd.concat([timing[timing["section"] != f"{ROOT}/other"], whole[TIMING_COLUMNS]])
    return joined.sort_values("step", kind="stable").reset_index(drop=True)


def analyze_old_logs(path: Path, settings: Settings | None = None) -> Analysis:
    """Analyse text logs.

    Args:
        path: a log, or a folder with several.
        settings: what the run was trained with; None for the defaults, which a note says.

    Raises:
        RunError: as :func:`read_old_logs`.
    """
    found = read_old_logs(path)
    logs, known = found.logs, Settings() if settings is None else settings
    figures = _with_progress(run_figures(logs, 1, metrics=METRICS), found.progress)
    notes = []
    if found.host_clocks:
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
    data = means.get("data_ms") if speed.data_ms is None else speed.data_ms
    share = speed.data_share
    if share is None and data is not None and speed.step_ms:
        share = data / (data + speed.step_ms)
    rate = means.get("samples_per_second")
    return replace(
        figures,
        speed=replace(speed, data_ms=data, data_share=share, samples_per_second=rate),
    )
