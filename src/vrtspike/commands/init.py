"""Command ``vrtspike init``: a new project."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from vrtspike.commands.new_project.files import ProjectData, require_free, write_project


def add_init(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="of the new project; absent or empty"
    )
    parser.add_argument(
        "--from-data",
        type=Path,
        metavar="ROOT",
        help="folder with train and test, which is looked at and written into the configuration",
    )


def run_init(arguments: argparse.Namespace) -> None:
    """Make a project in a folder of its own: configuration, Snakefile, profiles.

    The workflow stays in the installed package (docs/project.md). Nothing is overwritten.
    """
    folder = arguments.folder
    require_free(folder)
    data = ProjectData()
    if arguments.from_data is not None:
        from vrtspike.commands.new_project.data_inspection import inspect_data

        data, lines = inspect_data(arguments.from_data)
        print("\n".join(lines))
    write_project(folder, data)
    print(f"{folder}: a new project; set what to run in config/config.yaml there\n")
    if folder.resolve() != Path.cwd():
        print(f"  cd {shlex.quote(str(folder))}")
    print("  vrtspike doctor\n  snakemake -n train_light")
