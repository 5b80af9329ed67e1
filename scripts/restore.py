"""Restore a folder of blurry frames with trained weights; spikes are recorded or simulated."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.cli import run
from vrtspike.config import load_settings_file
from vrtspike.data.dataset import load_dataset
from vrtspike.data.progress import progress_bar
from vrtspike.errors import ConfigError
from vrtspike.evaluation.device import DEVICE_NAMES, take_device
from vrtspike.evaluation.folder import RECORD, SIMULATED, restore_folder
from vrtspike.evaluation.restore import load_model, tiling_for
from vrtspike.evaluation.sources import FolderSequence, FrameSource, SimulatedSequence


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="weights.safetensors of a run")
    parser.add_argument(
        "--settings", type=Path, required=True, help="settings.json that lies beside the weights"
    )
    parser.add_argument(
        "--statistics",
        type=Path,
        required=True,
        help="dataset.json of the data the model was trained on, for the normalisation of spikes",
    )
    parser.add_argument("--blur", type=Path, required=True, help="folder of blurry PNG frames")
    spikes = parser.add_mutually_exclusive_group(required=True)
    spikes.add_argument(
        "--spikes", type=Path, help="folder of .dat files named as the frames, or one .dat for all"
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
        help="size of the spike sensor; without it half the frames' size",
    )
    parser.add_argument("--sharp", type=Path, help="folder of sharp frames to compare with")
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--tile", type=int, help="side of a tile; without it TEST.TILE.SIZE")
    parser.add_argument("--device", choices=DEVICE_NAMES, default="auto", help="where to compute")
    arguments = parser.parse_args()
    if arguments.simulate_spikes and arguments.sensor is not None:
        parser.error("--sensor describes recorded spikes; the simulated sensor has half the size")
    return arguments


def main() -> None:
    """Restore the folder and print what was done."""
    arguments = parse_arguments()
    settings = load_settings_file(arguments.settings)
    tile = settings.TEST.TILE
    if arguments.tile is not None:
        overlap = min(tile.OVERLAP, arguments.tile // 4 * 2)
        tile = tile.model_copy(update={"SIZE": arguments.tile, "OVERLAP": overlap})
    tiling = tiling_for(tile, settings.DATA.CLIP_LEN)
    dataset = load_dataset(arguments.statistics)
    if dataset.bins != settings.DATA.K:
        raise ConfigError(
            f"{arguments.statistics}: built with {dataset.bins} bins, the model takes "
            f"{settings.DATA.K} (DATA.K); give the data set the model was trained on"
        )
    source: FrameSource
    if arguments.simulate_spikes:
        source, origin = SimulatedSequence(arguments.blur, settings.DATA.K), SIMULATED
    else:
        sensor = None if arguments.sensor is None else tuple(arguments.sensor)
        source = FolderSequence(arguments.blur, arguments.spikes, settings.DATA.K, sensor)
        origin = f"recorded, read from {arguments.spikes}"
    title = f"restore {arguments.blur}"
    with take_device(arguments.device) as device, progress_bar(title) as progress:
        record = restore_folder(
            load_model(arguments.weights, settings, device),
            source,
            dataset.statistics_for(settings.DATA),
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
