"""Published results (``paper_results.csv``), and the inputs of their reproduction.

Each row has the source of the result (``url``), the known conditions of its measurement
(``measured``), and the place that it was read from (``seen``): its own source or another paper.
Unknown entries are empty. The protocol of a result is ``other`` if it is not known to be one of
this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.survey import survey_files
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.system.errors import ConfigError, DataError, list_faults

PAPER_RESULTS_FILE = Path(__file__).with_suffix(".csv")
OTHER = "other"
WEIGHTS_SOURCE = "https://github.com/JingyunLiang/VRT/releases"


@dataclass(frozen=True)
class PaperResult:
    """A result of a paper and its test split.

    Attributes:
        psnr: dB.
        sequences: number of test sequences.
        frames: number of their frames.
        tolerance: largest accepted difference of a reproduction, in dB.
    """

    psnr: float
    sequences: int
    frames: int
    tolerance: float = 0.02

    def is_reproduced_by(self, psnr: float) -> bool:
        """Return whether a PSNR reproduces it, by their difference to three decimals."""
        return abs(self._difference(psnr)) <= self.tolerance

    def comparison_text(self, psnr: float) -> str:
        """Return the comparison in a sentence.

        >>> PaperResult(34.81, 11, 1111).comparison_text(34.834)
        'found 34.834 dB, expected 34.81 dB: the difference of +0.024 dB is beyond 0.02 dB'
        """
        side = "within" if self.is_reproduced_by(psnr) else "beyond"
        return (
            f"found {psnr:.3f} dB, expected {self.psnr:.2f} dB: the difference of "
            f"{self._difference(psnr):+.3f} dB is {side} {self.tolerance:.2f} dB"
        )

    def _difference(self, psnr: float) -> float:
        return round(psnr - self.psnr, 3)


def vrt_on_gopro() -> PaperResult:
    """VRT without spikes on GoPro's test split."""
    rows = read_paper_results().set_index("model")
    return PaperResult(float(rows["psnr"].to_dict()["VRT"]), sequences=11, frames=1111)


def published_vrt_weights(settings: DeblurringSettings) -> str:
    """Return the file of VRT's published weights, if weights and frames are complete.

    Args:
        settings: settings of the preset that evaluates them.

    Raises:
        UserError: if the weights or frames are missing, see :func:`require_published_weights` and
            :func:`require_published_frames`.
    """
    require_published_weights(settings)
    require_published_frames(settings, "blur", vrt_on_gopro())
    return str(settings.MODEL.VRT.PRETRAINED)


def require_published_weights(settings: DeblurringSettings) -> None:
    """Reject a missing file of VRT's published weights.

    Raises:
        ConfigError: if it is missing, with its place and its source.
    """
    path = settings.MODEL.VRT.PRETRAINED
    if path is None or not Path(path).is_file():
        raise ConfigError(
            f"MODEL.VRT.PRETRAINED: no such file: {path}. Reproducing VRT's result needs its "
            f"weights 006_VRT_videodeblurring_GoPro.pth there, from {WEIGHTS_SOURCE} "
            "(docs/training.md), and the frames of GoPro's test split (DATA.ROOT)"
        )


def require_published_frames(
    settings: DeblurringSettings, blur_dir: str, expected: PaperResult
) -> list[SequenceFiles]:
    """Return the frames of the test split of a published result, found by their names.

    Args:
        settings: DATA has their place; the training split may be missing.
        blur_dir: folder of the blurry frames.
        expected: published result, with its numbers of sequences and frames.

    Raises:
        DataError: if frames are missing, a sequence has faults, or the numbers of sequences and
            frames are not those of the published result.
    """
    data = settings.DATA
    folder = RawFolder(data.ROOT, blur_dir, data.LAYOUT)
    report, files_by_sequence = survey_files(folder, [data.TEST_SPLIT])
    sequences = list(files_by_sequence.values())
    location = f"{data.ROOT}, split {data.TEST_SPLIT}"
    faults = []
    for name, messages in report["excluded"].items():
        faults += [f"{name}: {message}" for message in messages]
    for files in sequences:
        for number in files.blur.keys() - files.sharp.keys():
            faults.append(f"{files.split}/{files.name}: frame {number} has no sharp one")
    if faults:
        raise DataError(
            list_faults(f"{location}: faults", faults, "Unpack GoPro's test split again.")
        )
    frames = sum(len(files.blur) for files in sequences)
    if len(sequences) != expected.sequences or frames != expected.frames:
        raise DataError(
            f"{location}: {len(sequences)} sequences of {frames} frames; the published result is "
            f"of {expected.sequences} of {expected.frames}: give GoPro's whole test split "
            "(DATA.ROOT)"
        )
    return sequences


def read_paper_results() -> pd.DataFrame:
    """Return the published rows, with the columns ``source`` and ``note`` of the leaderboard."""
    rows = pd.read_csv(PAPER_RESULTS_FILE)
    return rows.assign(
        source=rows["source"] + ", " + rows["url"],
        note=rows["measured"] + ". Result: " + rows["seen"],
    )
