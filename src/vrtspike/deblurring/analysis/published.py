"""Published figures (``published.csv``): what reproduces them, and where own runs stand.

A row without a public source does not exist; what a source does not say is empty. The protocol of a
figure is ``unknown`` where no protocol of ours is known to be how it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from vrtspike.analysis.evaluation_files import Summary, find_evaluation
from vrtspike.analysis.evaluations import (
    SPREAD,
    STANDARD_ERROR,
    column_name,
    protocols,
    quality_table,
    require_seeds,
)
from vrtspike.config.run_schema import split_seed
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles
from vrtspike.deblurring.data.raw.survey import survey
from vrtspike.deblurring.settings import Settings
from vrtspike.io.files import atomic_write_text
from vrtspike.plotting.pages import Table, markdown_table, texts, write_page
from vrtspike.runs.published import PublishedRun, read_published
from vrtspike.system.errors import ConfigError, DataError, list_faults

FILE = Path(__file__).with_suffix(".csv")
UNKNOWN = "unknown"
COLUMNS = {
    "model": "model",
    "inputs": "inputs",
    "dataset": "data set",
    "psnr": "PSNR, dB",
    "psnr_error": "standard error, dB",
    "psnr_spread": "spread over seeds, dB",
    "ssim": "SSIM",
    "parameters": "parameters",
    "gflops": "GFLOPs at 256 x 256",
    "source": "source",
    "note": "note",
}
"""Columns of the leaderboard, and their headers for people."""
FORMATS = {
    "PSNR, dB": ".2f",
    "standard error, dB": ".2f",
    "spread over seeds, dB": ".2f",
    "SSIM": ".4f",
    "parameters": ",.0f",
    "GFLOPs at 256 x 256": ".1f",
}
NOTE = (
    "A table for each protocol (docs/metrics.md): figures of two tables do not compare, nor do "
    "those of two data sets. What an empty cell would say is not known here, or was not measured."
)
UNKNOWN_NOTE = "How these were measured is not known here: they compare with nothing."
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
    """The published rows."""
    return pd.read_csv(FILE)


def own_figures(folders: Sequence[Path]) -> pd.DataFrame:
    """The figures of own presets, a row per preset and protocol: means over its seeds.

    Args:
        folders: result folders of runs (``<results>/train/<preset>``), their evaluations beside.
    """
    presets: dict[str, list[tuple[PublishedRun, Summary]]] = {}
    for folder in folders:
        run = read_published(folder)
        if (evaluation := find_evaluation(folder, run)) is not None:
            presets.setdefault(split_seed(run.name)[0], []).append((run, evaluation))
    rows = []
    for name, found in presets.items():
        runs, summaries = zip(*found, strict=True)
        require_seeds(runs)
        first, spikes = summaries[0], runs[0].settings.value("MODEL.USE_SPIKE")
        figures = quality_table([summaries])[0].iloc[0]
        notes = [figures.get("note"), f"mean of {len(runs)} seeds" if len(runs) > 1 else None]
        rows += [
            {
                "model": name,
                "protocol": protocol,
                "dataset": f"{first['dataset']}, {first['split']}",
                "inputs": "RGB and spikes" if spikes else "RGB",
                "psnr": figures.get(f"{column_name('psnr', protocol)} restored"),
                "psnr_error": figures.get(f"{column_name('psnr', protocol)} {STANDARD_ERROR}"),
                "psnr_spread": figures.get(f"{column_name('psnr', protocol)} {SPREAD}"),
                "ssim": figures.get(f"{column_name('ssim', protocol)} restored"),
                "parameters": runs[0].parameters,
                "source": f"this project, run {', '.join(run.fingerprint for run in runs)}",
                "note": "; ".join(filter(None, notes)),
            }
            for protocol in protocols(first)
        ]
    return pd.DataFrame(rows, columns=["protocol", *COLUMNS])


def write_leaderboard(folders: Sequence[Path], output: Path) -> pd.DataFrame:
    """Own runs and published rows side by side, by protocol, in four formats.

    Args:
        folders: as for :func:`own_figures`.
        output: folder for ``leaderboard.{csv,md,tex,html}``.

    Returns:
        all rows, those of a protocol and a data set together, the best PSNR first, unknown
        protocols last.
    """
    parts = [part for part in (own_figures(folders), read_published_figures()) if len(part)]
    table = pd.concat(parts).reindex(columns=["protocol", *COLUMNS])
    table = table.assign(unknown=table["protocol"] == UNKNOWN)
    order = {"unknown": True, "protocol": True, "dataset": True, "psnr": False}
    table = table.sort_values([*order], ascending=[*order.values()], ignore_index=True)
    table = table.drop(columns="unknown")
    alignment = "".join("r" if head in FORMATS else "l" for head in COLUMNS.values())
    pages, markdown = [], ["# Leaderboard", "", NOTE, ""]
    latex = [f"% {NOTE}", "% It takes the package booktabs."]
    for name, of_protocol in table.groupby("protocol", sort=False):
        title, note = f"Protocol {name}", UNKNOWN_NOTE if name == UNKNOWN else ""
        rows = of_protocol.drop(columns="protocol").rename(columns=COLUMNS)
        cells = texts(rows, FORMATS, absent="")
        pages.append(Table(rows, title, note, formats=FORMATS))
        markdown.append(f"## {title}\n\n{markdown_table(cells)}")
        latex.append(f"% {title}")
        latex.append(cells.to_latex(index=False, escape=True, column_format=alignment))
    write_page(output / "leaderboard.html", "Leaderboard", NOTE, pages)
    atomic_write_text(output / "leaderboard.csv", table.to_csv(index=False, float_format="%.6g"))
    atomic_write_text(output / "leaderboard.md", "\n".join(markdown))
    atomic_write_text(output / "leaderboard.tex", "\n".join(latex))
    return table
