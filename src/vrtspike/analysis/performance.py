"""The performance analysis of one run: tables, plots, findings, a proposed preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vrtspike.analysis.figures import RunFigures, run_figures, summarize_sections, throughput
from vrtspike.analysis.findings import Finding, find, findings_table, preset_text, proposed_keys
from vrtspike.analysis.run_logs import RunLogs, read_run_logs
from vrtspike.config.problems import Metric, find_problem
from vrtspike.io.files import atomic_write_text, write_json
from vrtspike.monitoring.timing_layout import ROOT
from vrtspike.plotting.drawing import draw, show_text
from vrtspike.plotting.pages import Table, write_page
from vrtspike.runs.published import PublishedRun, read_published

TABLES = ("timing.csv", "throughput.csv", "memory.csv", "metrics.csv")
PLOTS = (
    "time_per_section.svg",
    "throughput.svg",
    "memory.svg",
    "loss.svg",
    "metrics.svg",
)
FINDINGS = "findings"
PROPOSED = "proposed.yaml"

MAX_BARS = 24
_BLUE = "#2b6cb0"

_FORMATS = dict.fromkeys(("mean", "p50", "p95", "min", "max"), ".2f") | {"share": ".1%"}


Curves = dict[str, tuple[pd.Series, pd.Series]]
"""Steps and values by label."""


@dataclass(frozen=True)
class Analysis:
    """The analysis of one run.

    Attributes:
        run: its identity; logs of another program have no fingerprint.
        logs: of the run.
        figures: of the logs.
        findings: the most important first.
        notes: sentences on the figures.
    """

    run: PublishedRun
    logs: RunLogs
    figures: RunFigures
    findings: Sequence[Finding]
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics of the run's problem."""
        return find_problem(self.run.settings.TASK).METRICS


def analyze_run(folder: Path, output: Path) -> list[Finding]:
    """Analyse a published run and write everything into ``output``.

    Args:
        folder: the run's result folder (``results/train/<preset>``).
        output: folder for the tables, the plots (SVG), ``findings.{json,csv,html}`` and
            ``proposed.yaml``.

    Returns:
        the findings, most important first.

    Raises:
        RunError: if the folder does not hold a finished run.
    """
    analysis = read_analysis(folder)
    write_analysis(analysis, output)
    return list(analysis.findings)


def read_analysis(folder: Path) -> Analysis:
    """Analyse a run, finished or not.

    Args:
        folder: the run's result folder, or its run folder (``runs/<preset>/<fingerprint>``).

    Raises:
        RunError: if the folder contains no run.
    """
    run, logs = read_published(folder), read_run_logs(folder)
    metrics = find_problem(run.settings.TASK).METRICS
    parts = run.settings.TRAIN.GRADIENT_ACCUMULATION_STEPS
    figures = run_figures(logs, parts, run.processes, metrics)
    return Analysis(run, logs, figures, find(figures, run.settings))


def write_analysis(analysis: Analysis, output: Path) -> None:
    """Write tables, plots, findings and proposed preset into ``output``."""
    logs = analysis.logs
    sections = summarize_sections(logs.timing)
    rates = throughput(logs.steps, logs.timing)
    write_tables(output, logs, sections, rates)
    write_plots(output, logs, sections, rates, analysis.metrics)
    _write_findings(output, analysis, sections)


def write_tables(output: Path, logs: RunLogs, sections: pd.DataFrame, rates: pd.DataFrame) -> None:
    """Write :data:`TABLES`: sections, throughput, memory, and training with validation."""
    kinds = [logs.train.assign(kind="train"), logs.validation.assign(kind="validation")]
    metrics = pd.concat([kind for kind in kinds if not kind.empty] or kinds[:1])
    metrics = metrics.sort_values("step", kind="stable")
    metrics.insert(0, "kind", metrics.pop("kind"))
    for name, table in zip(TABLES, (sections, rates, logs.memory, metrics), strict=True):
        atomic_write_text(output / name, table.to_csv(index=False, float_format="%.6g"))


def write_plots(
    output: Path,
    logs: RunLogs,
    sections: pd.DataFrame,
    rates: pd.DataFrame,
    metrics: Mapping[str, Metric],
) -> None:
    """Write :data:`PLOTS`."""
    train, validation, memory = logs.train, logs.validation, logs.memory

    def curve(table: pd.DataFrame, *columns: str) -> Curves:
        return {
            column: (table["step"], pd.to_numeric(table[column]).astype(float))
            for column in columns
            if column in table
        }

    plot_time_per_section(output / PLOTS[0], sections)
    untimed = "no step was timed (LOG.ENABLE_TIMING_LOG)"
    gpu = curve(memory, "gpu.allocated_mb", "gpu.reserved_mb", "gpu.peak_mb")
    plots: list[tuple[str, dict[str, Curves]]] = [
        (untimed, {"samples per second": curve(rates, "samples_per_second")}),
        (
            "no memory was logged",
            {
                "run, MB": curve(memory, "process_mb", "children_mb"),
                "system, %": curve(memory, "system_percent"),
                "GPU, MB": gpu,
            },
        ),
        (
            "no training step was logged",
            {
                "loss": curve(train, "loss"),
                "gradient norm": curve(train, "grad_norm"),
                "learning rate": curve(train, "lr"),
            },
        ),
        (
            "no validation in this run",
            {f"validation {m.label}": curve(validation, m.name) for m in metrics.values()},
        ),
    ]
    logarithmic = frozenset({"loss", "gradient norm"})
    for name, (missing, panels) in zip(PLOTS[1:], plots, strict=True):
        plot_lines(output / name, panels, logarithmic=logarithmic, missing=missing)


def _write_findings(output: Path, analysis: Analysis, sections: pd.DataFrame) -> None:
    findings, run = analysis.findings, analysis.run
    keys = proposed_keys(findings, run.settings)
    table = findings_table(findings)
    contents = {
        "schema": 1,
        "preset": run.name,
        "fingerprint": run.fingerprint or None,
        "figures": asdict(analysis.figures),
        "findings": [asdict(finding) for finding in findings],
        "proposed": keys,
    }
    write_json(output / f"{FINDINGS}.json", contents)
    atomic_write_text(output / f"{FINDINGS}.csv", table.to_csv(index=False))
    atomic_write_text(output / PROPOSED, preset_text(run.name, keys, findings))
    note = "" if findings else "Nothing to fix: no symptom crossed its limit."
    note = " ".join([note, *analysis.notes]).strip()
    write_page(
        output / f"{FINDINGS}.html",
        f"Performance of preset {run.name}",
        note,
        [
            *([Table(table, "Findings", "The most important first.")] if findings else []),
            Table(figures_table(analysis.figures, analysis.metrics), "The run in numbers"),
            Table(
                sections.drop(columns="depth"),
                "Time per section",
                "Milliseconds of a step, the first step left out; share of the step's time.",
                _FORMATS,
            ),
        ],
    )


def figures_table(figures: RunFigures, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """The main figures of a run, with their units, as rows of text."""
    speed, health, memory = figures.speed, figures.health, figures.memory
    slowest = speed.slowest_section
    rows = [
        ("step", _number(speed.step_ms, "ms")),
        ("forward pass of one micro-batch", _number(speed.forward_ms, "ms")),
        ("wait for one batch", _number(speed.data_ms, "ms")),
        ("share of waiting", _number(speed.data_share, "%", 100)),
        ("slowest section", "–" if slowest is None else f"{slowest[0]}, {slowest[1]:.4g} ms"),
        ("throughput", _number(speed.samples_per_second, "samples/s")),
        ("logged steps", str(health.logged_steps)),
        ("last loss", _number(health.last_loss, "")),
        *(
            (f"best validation {metrics[name].title}", metrics[name].text(value))
            for name, value in health.best.items()
        ),
        ("memory of the run", _number(memory.process_mb, "MB")),
        ("system memory at most", _number(memory.system_percent, "%")),
        ("GPU memory at the peak", _number(memory.gpu_peak_mb, "MB")),
        ("cache hit rate", _number(memory.cache_hit_rate, "%", 100)),
    ]
    return pd.DataFrame(rows, columns=["figure", "value"])


def _number(value: float | None, unit: str, factor: float = 1) -> str:
    """A figure with four digits, or as an integer from 10000 on."""
    if value is None:
        return "–"
    number = value * factor
    text = f"{number:.0f}" if abs(number) >= 9999.5 else f"{number:.4g}"
    return f"{text} {unit}".strip()


def plot_time_per_section(path: str | Path, sections: pd.DataFrame) -> None:
    """Median milliseconds of each section of a step, indented as a tree, with the 95th percentile.

    Args:
        path: of the plot.
        sections: from :func:`summarize_sections`.
    """
    inner = sections[sections["section"].str.startswith(ROOT + "/")]
    shown = inner.nlargest(MAX_BARS, "p50").sort_index().iloc[::-1]

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        if shown.empty:
            return show_text(axes, "no section of a step was timed (LOG.ENABLE_TIMING_LOG)")
        names = [section.removeprefix(ROOT + "/") for section in shown["section"]]
        axes.barh(names, shown["p50"], color=_BLUE, label="median")
        axes.plot(shown["p95"], names, "|", color="#1a202c", markersize=9, label="95th percentile")
        rows = zip(names, shown["p50"], shown["p95"], shown["share"], strict=True)
        for name, value, late, share in rows:
            end = max(float(value), float(late))
            axes.annotate(f"  {value:.1f} ms, {share:.0%}", (end, name), va="center", fontsize=8)
        axes.set_xlabel("milliseconds per step")
        axes.margins(x=0.22)
        axes.grid(axis="y", visible=False)
        axes.legend(loc="lower right", frameon=False)

    draw(path, fill, (9.0, 1.4 + 0.26 * max(len(shown), 4)))


def plot_lines(
    path: str | Path,
    panels: Mapping[str, Mapping[str, tuple[pd.Series, pd.Series]]],
    *,
    logarithmic: frozenset[str] = frozenset(),
    missing: str,
) -> None:
    """Plot curves over the steps, one panel for each quantity.

    Args:
        path: of the plot.
        panels: curves (label to x and y) by title of the panel (quantity and unit). Values that are
            not finite leave gaps.
        logarithmic: titles of the panels with a logarithmic y axis.
        missing: text of the plot if there are no values.
    """
    filled = {
        title: kept
        for title, curves in panels.items()
        if (kept := {label: (x, y) for label, (x, y) in curves.items() if y.notna().any()})
    }

    def fill(figure: Figure) -> None:
        if not filled:
            return show_text(figure.subplots(), missing)
        rows = figure.subplots(len(filled), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (title, curves) in zip(rows, filled.items(), strict=True):
            for label, (x, y) in curves.items():
                marker = "o" if len(x) <= 25 else ""
                axes.plot(x, y, marker=marker, markersize=3, linewidth=1.4, label=label)
            axes.set_ylabel(title)
            if title in logarithmic and min(float(y.min()) for _, y in curves.values()) > 0:
                axes.set_yscale("log")
            if len(curves) > 1:
                axes.legend(frameon=False, fontsize=8)
        rows[-1].set_xlabel("optimiser step")
        rows[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        return None

    draw(path, fill, (8.0, 1.0 + 2.4 * max(1, len(filled))))
