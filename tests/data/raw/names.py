"""Folders of empty files named as those of public data sets: only their names are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

PATTERNS = {
    "spk_gopro": ("{s}/{q}/blur/{n}.png", "{s}/{q}/sharp/{n}.png", "{s}/{q}/spike/{n}.dat"),
    "kair": ("{s}_GT_blurred/{q}/{n}.png", "{s}_GT/{q}/{n}.png", "{s}_spike/{q}/{n}.dat"),
    "nafnet": ("{s}/input/{q}-{n}.png", "{s}/target/{q}-{n}.png", "{s}/spike/{q}-{n}.dat"),
    "spk_x4k_33": (
        "{s}_blurry_33/{q}/occ008/{n}.png",
        "{s}_fullRGB/{q}/occ008/{n}.png",
        "{s}_spike_2xds_33/{q}/occ008/{n}.dat",
    ),
    "spk_x4k_65": (
        "{s}_blurry_65/{q}/occ008/{n}.png",
        "{s}_fullRGB/{q}/occ008/{n}.png",
        "{s}_spike_2xds_65/{q}/occ008/{n}.dat",
    ),
    "s_sdm": (
        "{s}/blur_data/{q}/{n}.png",
        "{s}/sharp_data/{q}/{n}.png",
        "{s}/spike_data/{q}/{n}.dat",
    ),
    "rsb": ("blur_data/{q}/{n}.jpg", "spike_data/{q}/{n}.dat"),
    "stream": (
        "{s}/{q}/blur/{n}.png",
        "{s}/{q}/sharp/{n}.png",
        "{s}/{q}/spike.dat",
        "{s}/{q}/exposures.csv",
    ),
    "bsd": ("{s}/{q}/Blur/RGB/{n}.png", "{s}/{q}/Sharp/RGB/{n}.png"),
    "dvd": ("{s}/{q}/input/{n}.jpg", "{s}/{q}/GT/{n}.jpg"),
    "reds": ("{s}/{s}_blur/{q}/{n}.png", "{s}/{s}_sharp/{q}/{n}.png"),
    "rgb_pairs": ("{s}/blur/{q}/{n}.png", "{s}/gt/{q}/{n}.png"),
}
"""Paths of the files of a layout; s is a split, q a sequence and n a frame."""
STEPS = {"s_sdm": 13}
"""From one frame's number to the next, if it is not 1."""


def write_names(
    root: Path, layout: str, sequences: Mapping[str, int], frames: int = 2, spikes: bool = True
) -> None:
    """Write empty files.

    Args:
        root: the data set's folder.
        layout: name of its layout.
        sequences: number of sequences by split.
        frames: number of frames of a sequence.
        spikes: whether to write spike files.
    """
    step = STEPS.get(layout, 1)
    for split, number in sequences.items():
        for sequence, frame in product(range(number), range(frames)):
            for pattern in PATTERNS[layout]:
                name = pattern.format(s=split, q=f"q{sequence:03d}", n=f"{1 + step * frame:06d}")
                if spikes or not name.endswith(".dat"):
                    path = root / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.touch()


def write_gopro(root: Path, *, spikes: bool) -> None:
    """Write all files of GOPRO_Large, with as many sequences and frames as it has."""
    for split, lengths in (("train", [96] * 21 + [87]), ("test", [101] * 11)):
        for number, length in enumerate(lengths):
            folder = root / split / f"GOPR{number:04d}_11_00"
            for part, suffix in (("blur", "png"), ("sharp", "png"), ("spike", "dat")):
                if part == "spike" and not spikes:
                    continue
                (folder / part).mkdir(parents=True)
                for frame in range(1, length + 1):
                    (folder / part / f"{frame:06d}.{suffix}").touch()
