"""Restore a folder of blurry frames with trained weights.

Spikes are recorded or simulated; a model that was trained without them takes none.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vrtspike.cli import HelpFormatter, run
from vrtspike.config import Settings
from vrtspike.data.clips.dataset import load_fitting_dataset
from vrtspike.data.store.voxels import Statistics
from vrtspike.errors import ConfigError, list_faults
from vrtspike.evaluation.device import DEVICE_NAMES, take_device
from vrtspike.evaluation.folder import NO_SPIKES, RECORD, SIMULATED, restore_folder
from vrtspike.evaluation.restore import load_model, tiling_for
from vrtspike.evaluation.sources import (
    BlurrySequence,
    FolderSequence,
    FrameSource,
    SimulatedSequence,
)
from vrtspike.progress_bar import progress_bar
from vrtspike.runs.identity import RunIdentity

CARRY_ON = "The frames are restored all the same; do not trust these."


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="weights.safetensors of a run")
    parser.add_argument(
        "--settings", type=Path, required=True, help="settings.json that lies beside the weights"
    )
    parser.add_argument(
        "--statistics",
        type=Path,
        help="dataset.json of the data the model was trained on, for the normalisation of spikes",
    )
    parser.add_argument("--blur", type=Path, required=True, help="folder of blurry PNG frames")
    spikes = parser.add_mutually_exclusive_group()
    spikes.add_argument(
        "--spikes",
        type=Path,
        help="folder of .dat or .npz files named as the frames, or one file for all",
    )
    spikes.add_argument(
        "--simulate-spikes",
        action="store_true",
        help="simulate spikes from the blurry frames; they add no information",
    )
    parser.add_argument(
        "--sensor",
        type=int,
        nargs=2,
        metavar=("ROWS", "COLUMNS"),
        help="size of the spike sensor; without it that of .npz files, else half the frames' size",
    )
    parser.add_argument("--sharp", type=Path, help="folder of sharp frames to compare with")
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--tile", type=int, help="side of a tile; without it TEST.TILE.SIZE")
    parser.add_argument("--device", choices=DEVICE_NAMES, default="auto", help="where to compute")
    arguments = parser.parse_args()
    if arguments.simulate_spikes and arguments.sensor is not None:
        parser.error("--sensor describes recorded spikes; the simulated sensor has half the size")
    return arguments


def check_spikes(arguments: argparse.Namespace, settings: Settings) -> None:
    """Refuse spikes for a model that takes none, and a model with spikes without them.

    Raises:
        ConfigError: naming the options to give or to leave out.
    """
    given = {
        "--spikes": arguments.spikes is not None,
        "--simulate-spikes": arguments.simulate_spikes,
        "--sensor": arguments.sensor is not None,
    }
    if not settings.MODEL.USE_SPIKE:
        surplus = [option for option, there in given.items() if there]
        if surplus:
            raise ConfigError(
                f"{arguments.settings}: this model was trained without spikes (MODEL.USE_SPIKE is "
                f"false); leave out {', '.join(surplus)}"
            )
        return
    missing = []
    if not (given["--spikes"] or given["--simulate-spikes"]):
        missing.append("--spikes or --simulate-spikes")
    if arguments.statistics is None:
        missing.append("--statistics")
    if missing:
        raise ConfigError(
            f"{arguments.settings}: this model takes spikes (MODEL.USE_SPIKE is true); give "
            f"{' and '.join(missing)}"
        )


def open_source(arguments: argparse.Namespace, settings: Settings) -> tuple[FrameSource, str]:
    """The frames with the spikes that the model takes, and where those come from, in words."""
    if not settings.MODEL.USE_SPIKE:
        return BlurrySequence(arguments.blur), NO_SPIKES
    if arguments.simulate_spikes:
        return SimulatedSequence(arguments.blur, settings.DATA.K), SIMULATED
    sensor = None if arguments.sensor is None else tuple(arguments.sensor)
    source = FolderSequence(arguments.blur, arguments.spikes, settings.DATA.K, sensor)
    doubts = source.doubts()
    if doubts:
        print(list_faults("warning: spikes that do not fit", doubts, CARRY_ON), file=sys.stderr)
    return source, f"recorded, read from {arguments.spikes}"


def find_statistics(dataset_path: Path | None, settings: Settings) -> Statistics | None:
    """What the spikes are standardised with; None for a model without.

    Raises:
        ConfigError: if the data set has no spikes, or other bins than the model takes.
    """
    if dataset_path is None or not settings.MODEL.USE_SPIKE:
        return None
    return load_fitting_dataset(dataset_path, settings).statistics_for(settings.DATA)


def main() -> None:
    """Restore the folder and print what was done."""
    arguments = parse_arguments()
    settings = RunIdentity.read(arguments.settings.parent).settings
    tile = settings.TEST.TILE
    if arguments.tile is not None:
        overlap = min(tile.OVERLAP, arguments.tile // 4 * 2)
        tile = tile.model_copy(update={"SIZE": arguments.tile, "OVERLAP": overlap})
    tiling = tiling_for(tile, settings.DATA.CLIP_LEN)
    check_spikes(arguments, settings)
    source, origin = open_source(arguments, settings)
    title = f"restore {arguments.blur}"
    with take_device(arguments.device) as device, progress_bar(title) as progress:
        record = restore_folder(
            load_model(arguments.weights, settings, device),
            source,
            find_statistics(arguments.statistics, settings),
            device,
            tiling,
            arguments.output,
            spikes=origin,
            sharp=arguments.sharp,
            progress=progress,
        )
    print(f"spikes: {record['spikes']}")
    for frame in record["frames"]:
        if "psnr" in frame:
            print(f"{frame['frame']}: {frame['psnr_blur']:.2f} dB -> {frame['psnr']:.2f} dB")
    print(
        f"{len(record['frames'])} frames, {record['seconds_per_frame']:.1f} s each; "
        f"record: {arguments.output / RECORD}"
    )


if __name__ == "__main__":
    run(main)
