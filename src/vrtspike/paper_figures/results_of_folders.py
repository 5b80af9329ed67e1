"""Read results of any kind: runs and folders of restored frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from vrtspike.paper_figures.restored_results import read_restored
from vrtspike.paper_figures.results import RESERVED_LABELS, ModelResult
from vrtspike.paper_figures.run_results import RunRestorer, read_run_result
from vrtspike.restoration.folder.record import RESTORE_RECORD
from vrtspike.runs.file_names import RUN_RECORD
from vrtspike.system.errors import ConfigError


def read_results(
    folders: Sequence[Path],
    restorer: RunRestorer,
    *,
    labels: Sequence[str] = (),
    protocol: str | None = None,
    sharp: Path | None = None,
) -> list[ModelResult]:
    """Read results, one for each label, in the order of the folders.

    Folders of restored frames with one label become one result of several sequences.

    Args:
        folders: result folders of runs, and folders that ``vrtspike restore`` has written.
        restorer: restores frames that an evaluation did not keep.
        labels: names in figures, one for each folder; empty for those of presets and models.
        protocol: protocol of the PSNR; None takes that of each evaluation.
        sharp: sharp frames of folders of restored frames; None takes those of their records.

    Raises:
        ConfigError: if a folder is neither, two have one label and the same sequence, or a label
            is one of :data:`~vrtspike.paper_figures.results.RESERVED_LABELS`.
        RunError: if a file is missing or damaged.
        DataError: if frames are missing.
    """
    if labels and len(labels) != len(folders):
        raise ConfigError(
            f"--labels: found {len(labels)} ({', '.join(labels)}), expected one for each of the "
            f"{len(folders)} results"
        )
    results: dict[str, ModelResult] = {}
    for index, folder in enumerate(folders):
        label = labels[index] if labels else None
        if (folder / RESTORE_RECORD).is_file():
            result = read_restored(folder, protocol, label, sharp)
        elif (folder / RUN_RECORD).is_file():
            result = read_run_result(folder, restorer, protocol, label)
        else:
            raise ConfigError(
                f"{folder}: neither {RUN_RECORD} nor {RESTORE_RECORD} there; expected the result "
                "folder of a run (results/train/<preset>) or of vrtspike restore (-o restored)"
            )
        if result.label in RESERVED_LABELS:
            raise ConfigError(
                f"{folder}: called {result.label}, which names something else in figures, as do "
                f"{', '.join(RESERVED_LABELS)}; give other names with --labels, one for each result"
            )
        earlier = results.get(result.label)
        results[result.label] = result if earlier is None else _join(earlier, result)
    return list(results.values())


def _join(first: ModelResult, second: ModelResult) -> ModelResult:
    """Return two results of one model on different sequences as one.

    Raises:
        ConfigError: if they have a sequence in common.
    """
    both = [name for name in first.clips if name in second.clips]
    if both or first.cost is not None or second.cost is not None:
        of_what = f" of sequence {both[0]}" if both else ""
        raise ConfigError(
            f"{first.source} and {second.source}: two results{of_what} are called {first.label}; "
            "name them with --labels, one for each result"
        )
    return replace(
        first,
        source=f"{first.source}, {second.source}",
        clips={**first.clips, **second.clips},
        frame_psnr=pd.concat([first.frame_psnr, second.frame_psnr], ignore_index=True),
        notes=[*first.notes, *second.notes],
    )
