"""Tiny data sets in the layouts that others publish, each with two frames a sequence and split."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from tests.data.scenes import film
from vrtspike.data.data_source import RawFolder
from vrtspike.data.exposure import Exposure, exposure_table
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.spikes import write_spikes
from vrtspike.data.simulation.sensor import SimulatedSensor, simulate_spikes, synthesize_blur
from vrtspike.data.simulation.sequence import simulate_pairs
from vrtspike.io.files import atomic_write_bytes
from vrtspike.io.images import write_png

HEIGHT, WIDTH = 96, 128
CONTEXT = 20


@dataclass(frozen=True)
class Frame:
    """A frame with its spikes: those of the open shutter, and CONTEXT steps on both sides."""

    blur: np.ndarray
    sharp: np.ndarray
    spikes: np.ndarray


def frames(
    split: str, steps: int, sharp: int, size=(HEIGHT, WIDTH), scale=2, context=CONTEXT
) -> Iterator[Frame]:
    """Two successive frames whose shutter is open for ``steps`` steps, one source frame each."""
    total = 2 * steps + 2 * context
    video = film(len(split), total, *size, speed=1)
    for first in (0, steps):
        window = video[first : first + steps + 2 * context]
        spikes = simulate_spikes(window, steps_per_frame=1, seed=first, downscale=scale)
        exposed = window[context : context + steps]
        yield Frame(synthesize_blur(exposed), exposed[sharp], spikes)


def write_picture(path: Path, picture: np.ndarray) -> None:
    if path.suffix == ".png":
        write_png(path, picture)
    else:
        options = [cv2.IMWRITE_JPEG_QUALITY, 95]
        atomic_write_bytes(path, cv2.imencode(path.suffix, picture[:, :, ::-1], options)[1])


@dataclass(frozen=True)
class Published:
    """A way to write a data set.

    Attributes:
        layout: its name.
        write: into a folder.
        options: of its check, such as its layout where nothing tells it.
        spike_root: where its spikes lie below the data set's folder; None beside the frames.
        exposure: of the second frame, in steps of its spike file.
        spike_size: of the sensor's picture.
    """

    layout: str
    write: Callable[[Path], None]
    exposure: Exposure
    spike_size: tuple[int, int] = (HEIGHT // 2, WIDTH // 2)
    options: dict[str, Any] = field(default_factory=dict)
    spike_root: str | None = None


def each_file(blur: str, sharp: str, spike: str, names, steps: int, instant: int, **options):
    """A writer of one spike file a frame; patterns take ``{split}`` and ``{name}``."""
    margin = options.pop("margin", 0)

    def write(root: Path) -> None:
        for split in ("train", "test"):
            for name, frame in zip(names, frames(split, steps, instant, **options), strict=True):
                places = {"split": split, "name": name}
                write_picture(root / (blur.format(**places) + ".png"), frame.blur)
                write_picture(root / (sharp.format(**places) + ".png"), frame.sharp)
                cut = slice(CONTEXT - margin, CONTEXT + steps + margin)
                write_spikes(root / (spike.format(**places) + ".dat"), frame.spikes[cut])

    return write


def stream(write_stream: Callable[[Path, np.ndarray], None], steps=56, instant=30, **options):
    """A writer of one long recording a sequence, the shutter open at odd places."""

    def write(root: Path) -> None:
        for split in ("train", "test"):
            folder, parts, table = root / split / "a", [], {}
            for number, frame in enumerate(frames(split, steps, instant, **options)):
                for kind in ("blur", "sharp"):
                    write_picture(folder / kind / f"{number:04d}.png", getattr(frame, kind))
                first = number * len(frame.spikes) + options.get("context", CONTEXT)
                table[f"{number:04d}"] = Exposure(first, first + steps, first + instant + 0.5)
                parts.append(frame.spikes)
            (folder / "exposures.csv").write_text(exposure_table(table))
            write_stream(folder, np.concatenate(parts))

    return write


def _m1k40(folder: Path, spikes: np.ndarray) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (len(spikes), 1000, 1024), dtype=np.uint8)
    rows[:, :, :1000] = spikes
    write_spikes(folder / "spike.dat", rows)


def _uhsr(folder: Path, spikes: np.ndarray) -> None:
    sensor = np.random.default_rng(0).integers(0, 2, (len(spikes), 250, 250), dtype=np.uint8)
    sensor[:, 13:237, 13:237] = spikes
    np.savez(folder / "spike.npz", spk=sensor)


def _fractional(folder: Path, spikes: np.ndarray) -> None:
    """A sensor of 2/5 of the size sees every second or third pixel of one of full size."""
    rows, columns = (np.arange(n) * 5 // 2 for n in (64, 96))
    write_spikes(folder / "spike.dat", spikes[:, rows[:, None], columns])


def _x4k(length: int) -> Callable[[Path], None]:
    write = each_file(
        f"{{split}}_blurry_{length}/002/occ008.320/{{name}}",
        "{split}_fullRGB/002/occ008.320/{name}",
        f"{{split}}_spike_2xds_{length}/002/occ008.320/{{name}}",
        *(("0004", "0007_002"), length, length // 2),
    )

    def with_other_frames(root: Path) -> None:
        write(root)
        for split in ("train", "test"):
            folder = root / f"{split}_fullRGB/002/occ008.320"
            shutil.copy(folder / "0004.png", folder / "0004_000.png")

    return with_other_frames


def pairs(blur: str, sharp: str, suffix: str = ".png") -> Callable[[Path], None]:
    """A writer of blurry and sharp videos, with spikes simulated from them below ``spikes``."""

    def write(root: Path) -> None:
        for split in ("train", "test"):
            video = film(len(split), 24, HEIGHT, WIDTH, speed=1)
            for number in range(2):
                window = video[12 * number : 12 * number + 12]
                name = f"{number:08d}"
                write_picture(
                    root / blur.format(split=split) / (name + suffix), synthesize_blur(window)
                )
                write_picture(root / sharp.format(split=split) / (name + suffix), window[6])
            files = find_sequence(RawFolder(root), f"{split}/a")
            simulate_pairs(
                root, files, root / "spikes" / split / "a", SimulatedSensor(STEPS_PER_FRAME=56)
            )

    return write


def _open(start: int) -> Exposure:
    return Exposure(start, start + 56, start + 30.5)


SOURCE_FRAMES = ("000047", "000048"), 56, 24
SIMULATED = Exposure(56 + 28, 56 + 84, 56 + 56)

PUBLISHED = {
    **{
        name: Published(name, each_file(*places, *SOURCE_FRAMES), Exposure(0, 56, 24))
        for name, places in {
            "spk_gopro": (
                "{split}/a/blur/{name}",
                "{split}/a/sharp/{name}",
                "{split}/a/spike/{name}",
            ),
            "kair": (
                "{split}_GT_blurred/a/{name}",
                "{split}_GT/a/{name}",
                "{split}_spike/a/{name}",
            ),
            "nafnet": (
                "{split}/input/a-{name}",
                "{split}/target/a-{name}",
                "{split}/spike/a-{name}",
            ),
        }.items()
    },
    "spikes elsewhere": Published(
        "spk_gopro",
        each_file(
            *("{split}/a/blur/{name}", "{split}/a/sharp/{name}", "spikes/{split}/a/spike/{name}"),
            *SOURCE_FRAMES,
        ),
        Exposure(0, 56, 24),
        spike_root="spikes",
    ),
    "x4k 33": Published("spk_x4k_33", _x4k(33), Exposure(0, 33, 16)),
    "x4k 65": Published("spk_x4k_65", _x4k(65), Exposure(0, 65, 32)),
    "s-sdm": Published(
        "s_sdm",
        each_file(
            "{split}/blur_data/a/{name}",
            "{split}/sharp_data/a/{name}",
            "{split}/spike_data/a/{name}",
            *(("000019", "000032"), 97, 48),
            scale=4,
            margin=20,
        ),
        Exposure(20, 117, 68),
        spike_size=(HEIGHT // 4, WIDTH // 4),
    ),
    "one stream": Published(
        "stream",
        stream(lambda folder, spikes: write_spikes(folder / "spike.dat", spikes)),
        _open(56 + 3 * CONTEXT),
    ),
    "a fractional sensor": Published(
        "stream",
        stream(_fractional, size=(160, 240), scale=1),
        _open(56 + 3 * CONTEXT),
        spike_size=(64, 96),
        options={"spike_size": (64, 96)},
    ),
    "m1k40": Published(
        "m1k40",
        stream(_m1k40, size=(1000, 1000), scale=1, steps=12, instant=6, context=5),
        Exposure(27, 39, 33.5),
        spike_size=(1000, 1000),
        options={"layout": "m1k40"},
    ),
    "uhsr": Published(
        "uhsr",
        stream(_uhsr, size=(448, 448)),
        _open(56 + 3 * CONTEXT),
        spike_size=(224, 224),
        options={"layout": "uhsr"},
    ),
    **{
        name: Published(name, pairs(*places), SIMULATED, spike_root="spikes")
        for name, places in {
            "bsd": ("{split}/a/Blur/RGB", "{split}/a/Sharp/RGB"),
            "dvd": ("{split}/a/input", "{split}/a/GT", ".jpg"),
            "reds": ("{split}/{split}_blur/a", "{split}/{split}_sharp/a"),
            "rgb_pairs": ("{split}/blur/a", "{split}/gt/a"),
        }.items()
    },
}
