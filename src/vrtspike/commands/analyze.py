"""The command ``vrtspike analyze``: time and memory of a run, and proposed changes."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.commands.run_argument import find_run_folder
from vrtspike.system.errors import ConfigError
from vrtspike.system.options import add_output


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
    folder = find_run_folder(path)
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
