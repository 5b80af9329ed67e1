"""Experiments on the demo's data: presets trained and evaluated as by the workflow; their pages.

Results are kept in ``benchmarks/results``, and programs measure only what is missing there; remove
a result to measure it again. Pages are written from these files.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import torch

from real_samples import sample_psnr
from vrtspike.deblurring import task
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.schema import require_deblurring_settings
from vrtspike.io.files import atomic_write_text, read_json, write_json
from vrtspike.launching.launch import launch
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.published import PublishedRun, read_published
from vrtspike.system.options import HelpFormatter

ROOT = Path(__file__).resolve().parents[1]
CPU = torch.device("cpu")
SEEDS = (0, 7, 11)


@dataclass(frozen=True)
class Inputs:
    """Data of an experiment.

    Attributes:
        dataset: manifest of the data set.
        samples: folder of real frames (``real_samples.py``); None to leave them out.
    """

    dataset: Path
    samples: Path | None = None


Measured = Callable[[Inputs, dict[str, Any]], Iterator[None]]
"""Measures missing results; yields when they have changed."""


def run_experiment(
    program: str, page: Path, section: Callable[[Any], str], measured: Measured, about: str | None
) -> None:
    """Measure missing results and write a program's part of a page, or only compare it.

    Args:
        program: name of the program; results are in ``benchmarks/results/<program>.json``.
        page: path of the page that has the program's part.
        section: returns the part, from the results.
        measured: see :data:`Measured`.
        about: description of the program, for ``--help``.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=HelpFormatter)
    default = Path("results/data/demo/k32/dataset.json")
    parser.add_argument("--dataset", type=Path, default=default, help="the demo's")
    parser.add_argument("--samples", type=Path, help="folder of real frames, measured as well")
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is outdated")
    arguments = parser.parse_args()
    kept = ROOT / "benchmarks" / "results" / f"{program}.json"
    results = read_json(kept) if kept.is_file() else {}
    if not arguments.check:
        inputs = Inputs(arguments.dataset, arguments.samples)
        for _ in measured(inputs, results):
            write_json(kept, results)
    text = with_part(page, f"{program}.py", section(results))
    if arguments.check:
        require_current(page, text, f"{program}.py")
    else:
        atomic_write_text(page, text)


def train_preset(
    preset: str, changes: Mapping[str, object], manifest_path: Path, folder: Path
) -> PublishedRun:
    """Train a preset with changed keys on a CPU; the result is in ``folder/result``."""
    pairs = " ".join(f"{key}={value}" for key, value in changes.items())
    status = launch(
        ROOT / "scripts" / "train.py",
        preset=preset,
        configfile=[ROOT / "config" / "config.yaml"],
        config={"SET": pairs, "RUNS": str(folder / "runs")},
        dataset=manifest_path,
        output=folder / "result",
        gpus=0,
    )
    if status:
        raise SystemExit(f"{preset}, {pairs}: the training ended with {status}")
    return read_published(folder / "result")


@dataclass(frozen=True)
class Variant:
    """Changed keys of a preset, and the seeds of its trainings."""

    changes: Mapping[str, object] = field(default_factory=dict)
    seeds: Sequence[int] = SEEDS


Runs = dict[str, dict[str, dict[str, float]]]
"""Metrics of the test split by variant and seed: ``psnr`` in dB, ``tof`` in pixels, and others."""


def measure_variants(
    preset: str,
    variants: Mapping[str, Variant],
    inputs: Inputs,
    runs: Runs,
    further: Callable[[DeblurringSettings], dict[str, float]] = lambda settings: {},
) -> Iterator[None]:
    """Train and evaluate missing runs; yields after each.

    Args:
        preset: name of the preset.
        variants: variants by the names that the page shows.
        inputs: data of the experiment; the PSNR of a real frame is stored under its name.
        runs: known runs; missing ones are added.
        further: returns further values, from a variant's settings.
    """
    for name, variant in variants.items():
        by_seed = runs.setdefault(name, {})
        for seed in variant.seeds:
            if str(seed) in by_seed:
                continue
            with TemporaryDirectory() as folder:
                changes = {**variant.changes, "SEED": seed}
                run = train_preset(preset, changes, inputs.dataset, Path(folder))
                result = Path(folder) / "result"
                output = Path(folder) / "evaluation"
                job = EvaluationJob(result / WEIGHTS, run, inputs.dataset, output, CPU)
                task.evaluate(job)
                metrics = read_json(output / "summary.json")["metrics"]
                values = {metric: metrics[metric]["restored"] for metric in ("psnr", "tof")}
                if inputs.samples is not None:
                    values |= sample_psnr(result, inputs.samples)
            values["blurry"] = metrics["psnr"]["blurry"]
            by_seed[str(seed)] = {
                **values,
                **further(require_deblurring_settings(run.settings, preset)),
            }
            print(f"{name}, seed {seed}: {by_seed[str(seed)]}", flush=True)
            yield


def variants_table(
    variants: Mapping[str, Variant], runs: Runs, columns: Mapping[str, tuple[str, int]]
) -> str:
    """Format a row for each variant; former variants, in italics, come last.

    Args:
        variants: the present variants.
        runs: metrics of all runs.
        columns: title and decimals of the mean of further values; a variant without them has a
            dash.
    """
    rows = []
    for name in [*variants, *(name for name in runs if name not in variants)]:
        by_seed = list(runs.get(name, {}).values())
        psnr = [run["psnr"] for run in by_seed]
        spread = f"{min(psnr):.2f} to {max(psnr):.2f}" if len(psnr) > 1 else "one seed"
        means = []
        for key, (_, decimals) in columns.items():
            measured = [run[key] for run in by_seed if key in run]
            means.append(f"{statistics.fmean(measured):.{decimals}f}" if measured else "-")
        title = name if name in variants else f"*{name}*"
        rows.append([title, f"{statistics.fmean(psnr):.2f}", spread, *means])
    titles = [title for title, _ in columns.values()]
    return markdown(["network", "PSNR, dB, mean", "range of seeds", *titles], rows)


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def with_part(page: Path, program: str, text: str) -> str:
    """Return a page with ``text`` between the comments that mark a program's part."""
    begin = f"<!-- {program}: begin -->"
    end = f"<!-- {program}: end -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    return f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"


def require_current(page: Path, text: str, program: str) -> None:
    """End with status 1 if a page differs from its results.

    Args:
        page: the file.
        text: its expected contents.
        program: the program under ``benchmarks/`` that writes it.
    """
    if page.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{page} is outdated; run: python benchmarks/{program}")


def write_measurements(
    rows: Iterable[tuple[str, float, str]], folder: Path | None, name: str
) -> None:
    """Print names, values and units, and write them to ``<folder>/<name>.csv`` if there is one."""
    table = pd.DataFrame(rows, columns=["measurement", "value", "unit"])
    print(table.to_string(index=False, float_format="{:.4g}".format))
    if folder is not None:
        text = table.to_csv(index=False, float_format="%.4g", lineterminator="\n")
        atomic_write_text(folder / f"{name}.csv", text)
