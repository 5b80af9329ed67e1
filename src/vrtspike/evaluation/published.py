"""Published figures (``published.csv``), and what reproduces them.

Each row says where it was published (``url``), what is known of how it was ``measured``, and where
the figure was ``seen``: in its own source, or quoted by whom. What none of these say is empty. The
protocol of a figure is ``other`` where no protocol of ours is known to be how it was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.survey import survey
from vrtspike.settings import Settings
from vrtspike.system.errors import ConfigError, DataError, list_faults

FILE = Path(__file__).with_suffix(".csv")
OTHER = "other"
WEIGHTS_SOURCE = "https://github.com/JingyunLiang/VRT/releases"


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure and what it is of.

    Attributes:
        psnr: dB.
        sequences: of the test split.
        frames: of all of them.
        limit: dB by which a reproduction may differ.
    """

    psnr: float
    sequences: int
    frames: int
    limit: float = 0.02

    def is_found(self, psnr: float) -> bool:
        """Whether a figure reproduces it."""
        return abs(psnr - self.psnr) <= self.limit

    def verdict(self, psnr: float) -> str:
        """The comparison in a sentence.

        >>> PublishedFigure(34.81, 11, 1111).verdict(34.8)
        '34.81 dB expected, found 34.80 dB, difference -0.01 dB: within the limit of 0.02 dB'
        """
        which = "within" if self.is_found(psnr) else "beyond"
        return (
            f"{self.psnr:.2f} dB expected, found {psnr:.2f} dB, difference "
            f"{psnr - self.psnr:+.2f} dB: {which} the limit of {self.limit:.2f} dB"
        )


def vrt_on_gopro() -> PublishedFigure:
    """VRT without spikes on GoPro's test split."""
    rows = read_published_figures().set_index("model")
    return PublishedFigure(float(rows["psnr"].to_dict()["VRT"]), sequences=11, frames=1111)


def require_published_weights(settings: Settings) -> None:
    """Refuse to go on without the file of VRT's published weights.

    Raises:
        ConfigError: if it is not there: where it belongs, and where it is had.
    """
    path = settings.MODEL.VRT.PRETRAINED
    if path is None or not Path(path).is_file():
        raise ConfigError(
            f"MODEL.VRT.PRETRAINED: no such file: {path}. Reproducing VRT's figure needs its "
            f"weights 006_VRT_videodeblurring_GoPro.pth there, from {WEIGHTS_SOURCE} "
            "(docs/training.md), and the frames of GoPro's test split (DATA.ROOT)"
        )


def require_published_frames(
    settings: Settings, blur_dir: str, expected: PublishedFigure
) -> list[SequenceFiles]:
    """The frames of the test split that a published figure is of, found by their names.

    Args:
        settings: DATA says where they are; the training split need not be there.
        blur_dir: which blurry frames.
        expected: the figure.

    Raises:
        DataError: if they are not there, a sequence has faults, or they are others than those of
            the figure.
    """
    data, found = settings.DATA, list[SequenceFiles]()
    known = survey(data.ROOT, [data.VAL_SPLIT], blur_dir, data.LAYOUT, look=found.append)
    where = f"{data.ROOT}, split {data.VAL_SPLIT}"
    faults = [f"{name}: {fault}" for name, each in known["excluded"].items() for fault in each]
    faults += [
        f"{files.split}/{files.name}: frame {number} has no sharp one"
        for files in found
        for number in files.blur.keys() - files.sharp.keys()
    ]
    if faults:
        raise DataError(list_faults(f"{where}: faults", faults, "Unpack GoPro's test split again."))
    counts = len(found), sum(len(files.blur) for files in found)
    if counts != (expected.sequences, expected.frames):
        raise DataError(
            f"{where}: {counts[0]} sequences of {counts[1]} frames; the published figure is of "
            f"{expected.sequences} of {expected.frames}: give GoPro's whole test split (DATA.ROOT)"
        )
    return found


def read_published_figures() -> pd.DataFrame:
    """The published rows, with the columns ``source`` and ``note`` of the leaderboard."""
    rows = pd.read_csv(FILE)
    return rows.assign(
        source=rows["source"] + ", " + rows["url"],
        note=rows["measured"] + ". Figure: " + rows["seen"],
    )
