"""The command ``vrtspike figure``: figures of results for a paper."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from vrtspike.launching.gpus import DEVICE_NAMES
from vrtspike.paper_figures.names import FIGURE_NAMES
from vrtspike.system.errors import ConfigError, did_you_mean
from vrtspike.system.options import output_path


def add_figure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add(
        "folders",
        nargs="+",
        type=Path,
        metavar="RESULT",
        help="result folder of a run (results/train/light), or what restore has written",
    )
    add(
        "-o",
        "--output",
        type=output_path,
        default=Path("figures"),
        metavar="FOLDER",
        help="folder for the figures",
    )
    add(
        "--only",
        default="",
        metavar="NAMES",
        help=f"figures to write, separated by commas: {', '.join(FIGURE_NAMES)}; without it all "
        "that there are data for",
    )
    add("--labels", nargs="+", default=[], metavar="NAME", help="names of the results in figures")
    add(
        "--crop",
        action="append",
        default=[],
        metavar="SEQUENCE/FRAME:x,y,w,h",
        help="a crop in pixels, repeatable; without it those where the models differ most",
    )
    add("--error-maps", action="store_true", help="error maps below the crops")
    add(
        "--row",
        metavar="SEQUENCE:ROW",
        help="row of the x-t slices; without it the middle of the first crop",
    )
    add(
        "--sequence",
        action="append",
        default=[],
        metavar="NAME",
        help="sequence to show where --crop and --row name none, repeatable; without it all",
    )
    add("--protocol", metavar="NAME", help="of the PSNR; without it that of each evaluation")
    add("--sharp", type=Path, metavar="FOLDER", help="sharp frames of a folder of restored ones")
    add("--font", choices=("sans", "serif"), default="sans", help="of all texts")
    add("--device", choices=DEVICE_NAMES, default="auto", help="where frames are restored again")


def run_figure(arguments: argparse.Namespace) -> None:
    """Draw figures for a paper: crops, PSNR over frames, gain over motion, x-t slices, cost.

    RESULT are runs with their evaluations (results/train/<preset>, results/evaluate/<preset>) and
    folders of restored frames. Each figure is written as PDF and PNG with its numbers as CSV.
    Frames that an evaluation did not keep are restored again.
    """
    names = _chosen_names(arguments.only)
    row = _parse_row(arguments.row)
    from vrtspike.paper_figures.crop_boxes import parse_crop

    crops = [parse_crop(text) for text in arguments.crop]
    from vrtspike.paper_figures.results_of_folders import read_results
    from vrtspike.paper_figures.run_results import RunRestorer
    from vrtspike.paper_figures.writing import FigureRequest, FigureWriter
    from vrtspike.system.progress_bar import progress_bar

    request = FigureRequest(
        output=arguments.output,
        names=names,
        crops=crops,
        sequences=arguments.sequence,
        row=row,
        error_maps=arguments.error_maps,
        font=arguments.font,
    )
    with RunRestorer(arguments.device, progress_bar) as restorer:
        results = read_results(
            arguments.folders,
            restorer,
            labels=arguments.labels,
            protocol=arguments.protocol,
            sharp=arguments.sharp,
        )
        FigureWriter(results, request, progress_bar).write()


def _chosen_names(text: str) -> list[str]:
    """Return the figures that ``--only`` names.

    Raises:
        ConfigError: if a name is unknown.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in FIGURE_NAMES:
            raise ConfigError(
                f"--only: no figure {name!r}{did_you_mean(name, FIGURE_NAMES)}; figures: "
                f"{', '.join(FIGURE_NAMES)}"
            )
    return list(dict.fromkeys(names))


def _parse_row(text: str | None) -> tuple[str, int] | None:
    """Return the sequence and the row of ``--row``.

    Raises:
        ConfigError: if ``--row`` has another form.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(.+):(\d+)", text)
    if match is None:
        raise ConfigError(
            f"--row {text}: expected SEQUENCE:ROW, such as GOPR0384_11_00:360; rows count from 0"
        )
    return match[1], int(match[2])
