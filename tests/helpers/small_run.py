"""A small simulated data set, and small models with random weights."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from skimage import data as photographs

from tests.data.prepared import prepared
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import file_digest, write_json
from vrtspike.io.images import read_rgb
from vrtspike.models import build_model
from vrtspike.restoration.inputs.clip_frames import open_frames
from vrtspike.restoration.inputs.clip_spikes import recorded_spikes, simulated_spikes
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.runs.identity import RunIdentity, write_statistics

BINS = 4
EXPOSURES = 5
SIZE = (48, 64)
SECRETS = ("notify --token 5f0c7e", "my-lab/wandb-project", "my-mlflow-experiment")
"""Private settings of the user in every run of the light model."""
COMMIT = "0123456789abcdef0123456789abcdef01234567"
"""The commit in the record of every run of the light model."""


@dataclass(frozen=True)
class SmallRun:
    """Paths of a published run and of its data set."""

    raw: Path
    dataset: Path
    train: Path
    settings: DeblurringSettings


def moving_photograph(frames: int, left: int) -> list[np.ndarray]:
    """Crops of a photograph that move by one pixel per frame."""
    picture = photographs.astronaut()
    return [
        np.ascontiguousarray(picture[100 : 100 + SIZE[0], left + n : left + n + SIZE[1]])
        for n in range(frames)
    ]


def small_settings() -> DeblurringSettings:
    return DeblurringSettings.model_validate(
        {
            "DATA": {"NUM_VOXEL_BINS": BINS, "CLIP_LEN": 3, "CROP_SIZE": 32},
            "MODEL": {
                "VRT_DEPTHS": [1] * 11,
                "WINDOW_SIZE": [2, 8, 8],
                "VRT": {
                    "EMBED_DIMS": [8] * 11,
                    "NUM_HEADS": 2,
                    "DEFORMABLE_GROUPS": 2,
                    "DROP_PATH_RATE": 0.0,
                },
                "SPIKE_TSA": {"HEADS": 2},
                "FUSE": {"HEADS": 2, "INIT": "random"},
            },
            "TEST": {"METRICS": ["psnr", "ssim"], "TILE": {"SIZE": 64, "OVERLAP": 8}},
            "WEIGHTS": {"DIR": "no-such-folder"},
        }
    )


def write_small_run(folder: Path) -> SmallRun:
    """Write a data set, and the result folder of a small VRT-Spike with random weights."""
    raw = folder / "raw"
    sequences = {"train/a": 245, "test/b": 200, "test/c": 140}
    for name, left in sequences.items():
        video = moving_photograph(EXPOSURES * 7, left)
        write_sequence(raw / name, video, frames_per_exposure=7)
    dataset = prepared(raw, sequences, folder / "small", BINS)
    settings = small_settings()
    torch.manual_seed(0)
    model = build_model(settings)
    # A new network returns its input; this one changes it.
    torch.nn.init.normal_(model.get_submodule("vrt.conv_last").get_parameter("weight"), std=0.05)
    write_run(folder / "train", "small", settings, dataset, model)
    return SmallRun(raw, dataset, folder / "train", settings)


def write_run(
    train: Path, name: str, settings: DeblurringSettings, dataset: Path, network: torch.nn.Module
) -> None:
    """Write the result folder of a finished run."""
    train.mkdir(parents=True)
    save_file(network.state_dict(), train / "weights.safetensors")
    digest = load_dataset(dataset).digest
    run = RunIdentity(name, settings, str(dataset), "0123456789ab", digest)
    run.write(train)
    write_statistics(run, train)
    write_json(train / "run.json", {"status": "finished"})


def write_light_run(small_run: SmallRun, train: Path, *, use_spike: bool = True) -> None:
    """Write the result folder of a model with random weights that can be exported."""
    chosen = small_run.settings.model_dump(mode="json", exclude_unset=True)
    naf = {"WIDTH": 8, "ENCODER_BLOCKS": [1], "MIDDLE_BLOCKS": 1, "DECODER_BLOCKS": [1]}
    naf["NEIGHBOUR_BINS"] = 2
    chosen["MODEL"] = {"TYPE": "spike_nafnet", "NAF": naf, "USE_SPIKE": use_spike}
    chosen["DATA"]["ROOT"] = str(small_run.raw)
    chosen["TEST"]["TILE"]["FRAMES"] = 8  # whole clips, as the file computes them
    chosen["LOG"] = dict(zip(("ON_END", "WANDB", "MLFLOW"), SECRETS, strict=True))
    settings = DeblurringSettings.model_validate(chosen)
    torch.manual_seed(3)
    network = build_model(settings)
    for parameter in network.parameters():  # also of layers that start at zero
        torch.nn.init.normal_(parameter, std=0.1)
    write_run(train, train.name, settings, small_run.dataset, network)
    files = [train / name for name in ("weights.safetensors", "statistics.json")]
    record = {"status": "finished", "name": train.name, "fingerprint": "0123456789ab"}
    record["environment"] = {"git": {"commit": COMMIT, "changed": True}}
    record |= {"host": "node-17", "digests": {path.name: file_digest(path) for path in files}}
    write_json(train / "run.json", record)


def private_words(small_run: SmallRun) -> list[bytes]:
    """Words that no published file may contain: settings and paths of the user and machine."""
    folders = [small_run.raw.parent, Path.home(), Path(torch.__file__).parents[2], Path.cwd()]
    words = [*SECRETS, "node-17", socket.getfqdn(), *map(str, folders)]
    return [word.encode() for word in words]


def recorded_clip(
    blur: Path,
    spikes: Path,
    bins: int = BINS,
    sensor: tuple[int, int] | None = None,
    layout: Layout = SPK_GOPRO,
) -> InputClip:
    """A clip with its spike files."""
    pictures = open_frames(blur)
    return InputClip(
        pictures, recorded_spikes(pictures, spikes, sensor, layout), StoreOptions(bins=bins)
    )


def simulated_clip(blur: Path) -> InputClip:
    """A clip with spikes simulated from its frames."""
    pictures = open_frames(blur)
    return InputClip(pictures, simulated_spikes(pictures), StoreOptions(bins=BINS))


def arrays(sequence: Path) -> tuple[np.ndarray, list[np.ndarray]]:
    """Blurry frames of a raw sequence, and the spikes of each."""
    blur = sorted((sequence / "blur").iterdir())
    spikes = sorted((sequence / "spike").iterdir())
    return (
        np.stack([read_rgb(path) for path in blur]),
        [read_spikes(path, 24, 32) for path in spikes],
    )
