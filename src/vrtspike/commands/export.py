"""The command ``vrtspike export``: a trained model as an ONNX file."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.runs.named_models import find_trained_model
from vrtspike.system.errors import ConfigError
from vrtspike.system.options import add_output, positive_int


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model_name", metavar="MODEL", help="as for restore")
    add_output(parser, "file to write", "FILE.onnx", required=True)
    parser.add_argument(
        "--ratio",
        type=positive_int,
        default=2,
        help="pixels of a frame for each pixel of the spike sensor, along each side",
    )


def run_export(arguments: argparse.Namespace) -> None:
    """Write a trained model as an ONNX file, which runs without PyTorch.

    The file takes frames and spike counts of any number and size; it holds settings and statistics
    of the run, and `vrtspike restore` takes it in place of a run. It is compared with PyTorch
    before it is kept. VRT cannot be exported, because of its deformable convolutions.
    """

    output: Path = arguments.output
    if output.suffix != ".onnx":
        raise ConfigError(f"--output: found {output}, expected a file named *.onnx")
    from vrtspike.runs.published import read_finished

    read_finished(find_trained_model(arguments.model_name))
    # Imported after the arguments are checked, because this takes seconds.
    from vrtspike.restoration.loading import load
    from vrtspike.restoration.onnx_export import export_model

    model = load(arguments.model_name, device="cpu")
    difference = export_model(model, output, arguments.ratio)
    print(
        f"{output}: {output.stat().st_size / 1e6:.1f} MB, differs from PyTorch by "
        f"{difference:.1g} at most"
    )
