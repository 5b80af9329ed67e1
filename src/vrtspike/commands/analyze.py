"""Tell where a run's time and memory went, and what to change.

RUN is the folder of a run, finished (results/train/<preset>) or not (runs/<preset>/<fingerprint>,
or runs/<preset> for the latest), or a text log of an older training script (train_*.log,
timing_*.log) or a folder with such logs.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument("run_path", type=Path, metavar="RUN", help="folder of a run, or a text log")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="folder that tables, plots, findings.html and a proposed preset are written to",
    )
    parser.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="of a text log: the preset or configuration it was trained with",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print figures and findings.

    Raises:
        RunError: if there is neither a run nor a log.
        ConfigError: if the settings are wrong.
    """
    from vrtspike.analysis.performance import (
        figures_table,
        finding_lines,
        read_analysis,
        write_analysis,
    )
    from vrtspike.deblurring.analysis.old_logs import analyze_old_logs
    from vrtspike.deblurring.settings.loading import load_video_preset
    from vrtspike.runs.folder import latest_run

    path = arguments.run_path
    folder = latest_run(path)
    if folder is not None:
        analysis = read_analysis(folder)
    else:
        known = None if arguments.settings is None else load_video_preset(arguments.settings)
        analysis = analyze_old_logs(path, known)
    for note in analysis.notes:
        print(note)
    for figure, value in figures_table(analysis.figures, analysis.metrics).itertuples(index=False):
        if value != "–":
            print(f"{figure:<31} {value}")
    print()
    print("\n".join(finding_lines(analysis.findings)))
    if arguments.output is not None:
        write_analysis(analysis, arguments.output)
        print(f"\nwritten to {arguments.output}")
