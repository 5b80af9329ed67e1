"""Check of a folder of raw data in one call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.data.checks.accept import find_faults
from vrtspike.data.checks.ingest import ingest_sequence
from vrtspike.data.data_source import AUTO, RawFolder
from vrtspike.data.manifests import surveyed_sequences
from vrtspike.data.raw.survey import survey_files
from vrtspike.system.errors import list_faults
from vrtspike.system.progress_bar import progress_bar

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_FAULTS = 20


@dataclass(frozen=True, repr=False)
class DataCheck:
    """Sequences and faults of a folder of raw data.

    ``repr`` lists the first faults.

    Attributes:
        root: folder that contains the splits.
        layout: layout of the files; several are joined by a plus sign.
        sequences: a row for each sequence, indexed by ``<split>/<name>``: ``frames`` (number of
            blurry frames) and ``faults`` (number).
        faults: a row for each fault: ``sequence`` (``<split>/<name>``, or a split) and ``fault``.
    """

    root: Path
    layout: str
    sequences: pd.DataFrame
    faults: pd.DataFrame

    def __repr__(self) -> str:
        """Return the number of sequences, and the first faults."""
        sound = int((self.sequences["faults"] == 0).sum())
        title = (
            f"{self.root}: layout {self.layout}, {len(self.sequences)} sequences, {sound} without "
            "faults"
        )
        if self.faults.empty:
            return title
        lines = [f"{row.sequence}: {row.fault}" for row in self.faults.itertuples(index=False)]
        advice = "Fix these files or remove their sequences; `.faults` has all."
        return list_faults(f"{title}; faults", lines, advice, limit=_SHOWN_FAULTS)


def check_data(
    root: str | Path,
    *,
    splits: tuple[str, str] = ("train", "test"),
    blur_dir: str = "blur",
    layout: str = AUTO,
    spike_root: str | Path | None = None,
    sensor: tuple[int, int] | None = None,
) -> DataCheck:
    """Check a folder of raw data as survey, ingest and accept of the workflow do; writes nothing.

    Names, pictures and spike files of every sequence are read, one after the other; ``snakemake
    check_data`` uses all cores, keeps its results, and also checks what presets require.

    Args:
        root: folder of the data set, which holds the splits (DATA.ROOT).
        splits: split of training and split of testing.
        blur_dir: folder of the blurry frames (DATA.BLUR_DIR).
        layout: name of a layout; ``auto`` looks at the folders.
        spike_root: folder of the spikes under a root of their own (DATA.SPIKE_ROOT).
        sensor: rows and columns of the spike files; None takes the size in the files or next to
            them, or half the frames' size.

    Raises:
        DataError: if the folder is missing, or the names alone show a fault of every sequence.

    Example::

        check = vrtspike.check_data("data/demo")
        check.faults.groupby("sequence").size()
    """
    import pandas as pd

    base = Path(root).absolute()
    spikes = None if spike_root is None else str(spike_root)
    result, files = survey_files(RawFolder(base, blur_dir, layout, spikes), splits)
    names = surveyed_sequences(result)
    manifests = []
    with progress_bar("check, sequences") as progress:
        for number, name in enumerate(names, start=1):
            manifests.append(ingest_sequence(base, files[name], sensor))
            progress(number, len(names))
    faults = find_faults(manifests, splits, result["excluded"])
    rows = [{"sequence": name, "fault": fault} for name in faults for fault in faults[name]]
    sequences = [
        {"sequence": name, "frames": len(files[name].blur), "faults": len(faults.get(name, []))}
        for name in sorted(files)
    ]
    return DataCheck(
        Path(root),
        str(result["layout"]),
        pd.DataFrame(sequences).set_index("sequence"),
        pd.DataFrame(rows, columns=["sequence", "fault"]),
    )
