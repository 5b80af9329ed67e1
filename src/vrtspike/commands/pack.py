"""The command ``vrtspike pack``: a finished run as one folder for publication."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.system.options import add_output


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
    published = read_published(arguments.run_path)
    require_deblurring_settings(published.settings, published.name)
    missing_parts = pack_run(
        arguments.run_path, arguments.output, arguments.licence, half=arguments.half
    )
    for missing in missing_parts:
        print(f"note: {missing}")
    size = sum(path.stat().st_size for path in arguments.output.iterdir())
    print(f"{arguments.output}: {size / 1e6:.1f} MB; vrtspike restore {arguments.output} ...")
