"""Commands of ``vrtspike`` for runs: pack, analyze, compare and why."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from vrtspike.runs.folder import latest_run
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.home import require_project
from vrtspike.system.options import add_output
from vrtspike.workflow.plan_view import SUMMARY_ONLY_VARIABLE
from vrtspike.workflow.snakemake_call import snakemake_command


def add_pack(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "run_path", type=Path, metavar="RUN", help="result folder, such as results/train/demo"
    )
    add_output(parser, "folder to write", "FOLDER", required=True)
    parser.add_argument(
        "--licence",
        default="other",
        metavar="NAME",
        help="of the weights, by the hub's names (mit, cc-by-4.0 ...); without: other",
    )
    parser.add_argument(
        "--half",
        action="store_true",
        help="weights in half precision (float16), half as large; loading them gives float32",
    )


def run_pack(arguments: argparse.Namespace) -> None:
    """Write a finished run of deblurring as one folder for publication.

    It contains weights, settings, statistics, the metrics of its evaluation with their protocol,
    and a model card for the Hugging Face hub (`hf upload OWNER/NAME FOLDER`).
    `vrtspike restore` and `vrtspike.load` take such a folder, or OWNER/NAME, in place of a run.
    """
    from vrtspike.deblurring_settings import require_deblurring_settings
    from vrtspike.reporting.packing import pack_run
    from vrtspike.runs.published import read_published

    # A packed folder is for restoring frames.
    require_deblurring_settings(read_published(arguments.run_path).settings)
    missing_parts = pack_run(
        arguments.run_path, arguments.output, arguments.licence, half=arguments.half
    )
    for missing in missing_parts:
        print(f"note: {missing}")
    size = sum(path.stat().st_size for path in arguments.output.iterdir())
    print(f"{arguments.output}: {size / 1e6:.1f} MB; vrtspike restore {arguments.output} ...")


def _find_run(path: Path) -> Path | None:
    """Find the folder of a run; None for another path, such as a text log.

    Raises:
        RunError: if the path does not exist.
    """
    folder = latest_run(path)
    if folder is None and not path.exists():
        raise RunError(
            f"{path}: no such file or folder; expected that of a run (results/train/<preset>, "
            "runs/<preset>/<fingerprint>) or a text log"
        )
    return folder


def add_analyze(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_path", type=Path, metavar="RUN", help="folder of a run, or a text log")
    contents = "folder that tables, plots, findings.html and a proposed preset are written to"
    add_output(parser, contents)
    parser.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="of a text log: the preset or configuration it was trained with",
    )


def run_analyze(arguments: argparse.Namespace) -> None:
    """Analyse time and memory of a run, or of an old text log, and propose changes.

    RUN is the folder of a run, finished (results/train/<preset>) or not
    (runs/<preset>/<fingerprint>, or runs/<preset> for the latest), or a text log of an older
    training script (train_*.log, timing_*.log) or a folder with such logs.
    """
    path = arguments.run_path
    folder = _find_run(path)
    if folder is not None and arguments.settings is not None:
        raise ConfigError(
            f"--settings {arguments.settings}: says what a text log was trained with; {folder} is "
            "a run, which has its own settings: leave --settings out"
        )
    from vrtspike.analysis.diagnosis.findings import finding_lines
    from vrtspike.analysis.performance import analyze_run, measurements_table, write_analysis
    from vrtspike.deblurring.legacy_logs import analyze_old_logs
    from vrtspike.deblurring_settings.schema import load_deblurring_preset

    if folder is not None:
        analysis = analyze_run(folder)
    else:
        settings = (
            None if arguments.settings is None else load_deblurring_preset(arguments.settings)
        )
        analysis = analyze_old_logs(path, settings)
    for note in analysis.notes:
        print(note)
    table = measurements_table(analysis.measurements, analysis.metrics)
    for name, value in table.itertuples(index=False):
        print(f"{name:<31} {value}")
    print()
    print("\n".join(finding_lines(analysis.findings)))
    if arguments.output is not None:
        write_analysis(analysis, arguments.output)
        print(f"\nwritten to {arguments.output}")


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder of a run, finished or not",
    )
    parser.add_argument(
        "--format",
        choices=("text", "csv", "markdown"),
        default="text",
        help="of what is printed",
    )
    add_output(parser, "folder that tables are also written to")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="judge the runs by this file")
    parser.add_argument(
        "--write-baseline", type=Path, metavar="FILE", help="keep the metrics of the runs there"
    )


def run_compare(arguments: argparse.Namespace) -> int:
    """Compare runs: speed, memory, quality, settings; also with a stored baseline.

    Evaluations are read from <results>/evaluate/<preset>. With a baseline, the exit status is 1 if
    a metric of a run is worse.
    """
    folders = [_find_run(path) or path for path in arguments.runs]
    from vrtspike.analysis.comparisons.baseline import below_baseline, write_baseline
    from vrtspike.analysis.comparisons.compare import (
        comparison_of_runs_text,
        find_candidates,
        write_comparison,
    )

    candidates = find_candidates(folders)
    print(comparison_of_runs_text(candidates, arguments.format), end="", flush=True)
    if arguments.output is not None:
        write_comparison(candidates, arguments.output)
        print(f"written to {arguments.output}", file=sys.stderr)
    faults: list[str] = []
    if arguments.baseline is not None:
        faults = below_baseline(arguments.baseline, candidates)
        text = "\n".join(faults) or f"no run is below the baseline ({arguments.baseline})"
        print(text, file=sys.stderr)
    if arguments.write_baseline is not None:
        write_baseline(arguments.write_baseline, candidates)
        print(f"baseline: {arguments.write_baseline}", file=sys.stderr)
    return 1 if faults else 0


def add_why(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "targets", nargs=argparse.REMAINDER, metavar="TARGET", help="without any: all"
    )


def run_why(arguments: argparse.Namespace) -> None:
    """Show why stages would run, and how long they took last time.

    One line per stage that `snakemake TARGET` would run. Trained presets whose code has changed are
    also listed. Nothing is run. Options of snakemake follow the targets: vrtspike why all
    --configfile my.yaml
    """
    require_project()
    command = snakemake_command("--dry-run", *arguments.targets)
    completed = subprocess.run(command, env={**os.environ, SUMMARY_ONLY_VARIABLE: "1"}, check=False)
    if completed.returncode:
        raise RunError("Snakemake could not make a plan; see its message above")
