"""The results of a run: its evaluation, its test frames, and frames that it restores again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from vrtspike.analysis.comparisons.quality_tables import protocols
from vrtspike.analysis.evaluation_files import (
    EXAMPLES,
    FRAMES,
    Summary,
    evaluation_folder,
    find_evaluation,
)
from vrtspike.config.tasks import OWN_PROTOCOL
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.rgb_images import Image
from vrtspike.data.store.reading import Store
from vrtspike.evaluation.protocols import PROTOCOLS
from vrtspike.io.images import read_gray, read_rgb
from vrtspike.paper_figures.recorded_spikes import with_spikes
from vrtspike.paper_figures.results import FRAME_COLUMNS, Clip, Cost, ModelResult
from vrtspike.reporting.run_quality import read_examples, read_table
from vrtspike.restoration.inputs.clip_source import (
    StoredSequence,
    stored_blurry_frame,
    stored_sharp_frame,
)
from vrtspike.restoration.loading import load
from vrtspike.restoration.restore import restore_frames
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.runs.published import PublishedRun, read_published
from vrtspike.settings import deblurring_settings
from vrtspike.system.errors import ConfigError
from vrtspike.system.progress_bar import Progresses

_ADVICE = "evaluate the run again"

_Examples: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Path]]]
"""Frames that an evaluation kept: files by sequence, frame and kind of picture."""


@dataclass(frozen=True)
class Restoring:
    """The means to restore frames again.

    Attributes:
        device: returns the device that computes; called when the first frame is restored.
        progress: opens the progress of a sequence.
    """

    device: Callable[[], torch.device]
    progress: Progresses


def read_run_result(
    folder: Path, restoring: Restoring, protocol: str | None = None, label: str | None = None
) -> ModelResult:
    """Read the results of a finished run.

    Args:
        folder: ``results/train/<preset>``; the evaluation is in ``results/evaluate/<preset>``.
        restoring: restores frames that the evaluation did not keep.
        protocol: protocol of the PSNR; None takes the main one of the evaluation.
        label: name in figures; None takes the preset's.

    Raises:
        ConfigError: if the run restores no videos, or its evaluation lacks the protocol.
        RunError: if a file is missing or damaged.
    """
    run = read_published(folder)
    settings = deblurring_settings(run.settings, run.name)
    name = label or run.name
    notes = []
    summary = find_evaluation(folder, run)
    frame_psnr = pd.DataFrame(columns=FRAME_COLUMNS)
    cost = None
    main_protocol = settings.TEST.PROTOCOL[0]
    if summary is not None:
        main_protocol = summary["protocol"]
        chosen = _summary_of(summary, protocol or main_protocol, folder)
        frame_psnr = _frame_psnr(evaluation_folder(folder), chosen["protocol"])
        cost = _cost(summary, chosen)
        notes += [f"{name}: {warning}" for warning in summary.get("warnings", ())]
    else:
        notes.append(f"{name}: not evaluated, no {evaluation_folder(folder)} of this run")
    examples: _Examples = {}
    if summary is not None:
        examples = _read_examples(evaluation_folder(folder) / EXAMPLES)
    stores = _find_stores(folder, run, summary)
    if stores:
        clips = {sequence: _stored_clip(store, sequence) for sequence, store in stores.items()}
    else:
        notes.append(
            f"{name}: the stores of its test data are not beside it (results/data), so only frames "
            "that the evaluation kept as examples can be shown"
        )
        clips = {sequence: _example_clip(sequence, files) for sequence, files in examples.items()}
    frames = RunFrames(
        folder=folder,
        label=name,
        protocol=protocol or main_protocol,
        stores=stores,
        examples=examples if protocol in (None, main_protocol) else {},
        restoring=restoring,
    )
    return ModelResult(name, str(folder), clips, frames.restored, frame_psnr, cost, notes)


def _summary_of(summary: Summary, protocol: str, folder: Path) -> Summary:
    """The part of a summary for one protocol.

    Raises:
        ConfigError: with the protocols that there are.
    """
    summaries = protocols(summary)
    if protocol not in summaries:
        raise ConfigError(
            f"--protocol {protocol}: {evaluation_folder(folder)} has the protocols "
            f"{', '.join(summaries)}; choose one, or evaluate again with TEST.PROTOCOL"
        )
    return summaries[protocol]


def _frame_psnr(folder: Path, protocol: str) -> pd.DataFrame:
    """The PSNR of every frame under a protocol; empty if it was not measured."""
    table = read_table(folder / FRAMES, _ADVICE)
    rows = table[table["protocol"] == protocol]
    if not {"psnr", "psnr_blur"} <= set(rows.columns):
        return pd.DataFrame(columns=FRAME_COLUMNS)
    return rows[FRAME_COLUMNS].reset_index(drop=True)


def _cost(summary: Summary, chosen: Summary) -> Cost | None:
    """Quality and cost of an evaluation; None without PSNR."""
    psnr = chosen["metrics"].get("psnr", {}).get("restored")
    if psnr is None:
        return None
    return Cost(
        psnr=psnr,
        parameters=summary.get("parameters"),
        seconds=summary.get("model_seconds_per_frame"),
        device=summary.get("device", ""),
        dataset=summary["dataset"],
        protocol=chosen["protocol"],
    )


def _find_stores(folder: Path, run: PublishedRun, summary: Summary | None) -> dict[str, Store]:
    """The stores of the test split, by the name of the sequence; empty if they are not there.

    Stores of other data than the evaluated ones do not count.
    """
    recorded = Path(run.dataset)
    neighbor = folder.absolute().parent.parent.joinpath("data", *recorded.parts[-3:])
    digest = run.dataset_digest if summary is None else summary["dataset_digest"]
    split = deblurring_settings(run.settings).DATA.TEST_SPLIT
    for path in (neighbor, recorded):
        if not path.is_file():
            continue
        manifest = load_dataset(path)
        entries = manifest.split(split)
        if manifest.digest == digest and all(entry.store.is_dir() for entry in entries):
            return {entry.name: Store(entry.store) for entry in entries}
    return {}


def _stored_clip(store: Store, sequence: str) -> Clip:
    """A sequence of a store."""
    layout = store.layout
    numbers = {name: number for number, name in enumerate(layout.frames)}
    clip = Clip(
        name=sequence,
        frames=layout.frames,
        blurry=lambda name: stored_blurry_frame(store, numbers[name]),
        sharp=lambda name: stored_sharp_frame(store, numbers[name]),
    )
    if layout.spike_size is None:
        return clip
    columns = layout.spike_size[1]
    whole = slice(None)

    def recorded(name: str) -> tuple[PackedSpikes, Exposure]:
        number = numbers[name]
        rows = store.read("bits", slice(number, number + 1), whole, whole)[0]
        return PackedSpikes(rows, columns), layout.exposures[number]

    return with_spikes(clip, recorded, layout.ratio, store.path)


def _read_examples(folder: Path) -> _Examples:
    """Read which frames an evaluation kept as pictures; none without their index."""
    examples: dict[str, dict[str, Mapping[str, Path]]] = {}
    for example in read_examples(folder)["examples"]:
        files = {kind: folder / file for kind, file in example["files"].items()}
        examples.setdefault(example["sequence"], {})[example["frame"]] = files
    return {sequence: dict(sorted(frames.items())) for sequence, frames in examples.items()}


def _example_clip(sequence: str, files: Mapping[str, Mapping[str, Path]]) -> Clip:
    """Return the kept frames of a sequence.

    Args:
        sequence: name of the sequence.
        files: files by the name of the frame and the kind of picture.
    """

    def spikes(name: str) -> NDArray[np.uint8]:
        return read_gray(files[name]["spikes"])

    return Clip(
        name=sequence,
        frames=list(files),
        blurry=lambda name: read_rgb(files[name]["blurry"]),
        sharp=lambda name: read_rgb(files[name]["sharp"]),
        spikes=spikes if all("spikes" in kinds for kinds in files.values()) else None,
        is_complete=False,
    )


@dataclass
class RunFrames:
    """Restored frames of a run: those that its evaluation kept, or restored again.

    Attributes:
        folder: result folder of the run.
        label: name of the run, for the progress.
        protocol: gives the tiling, as in the evaluation.
        stores: stores of the test split, by the name of the sequence.
        examples: pictures of the evaluation; none if they are of another protocol.
        restoring: device and progress.
    """

    folder: Path
    label: str
    protocol: str
    stores: Mapping[str, Store]
    examples: _Examples
    restoring: Restoring

    @cached_property
    def model(self) -> TrainedModel:
        """The trained model, in float32 as in the evaluation."""
        return load(self.folder, device=self.restoring.device(), precision="float32")

    def restored(self, sequence: str, frames: Sequence[str]) -> Iterator[Image]:
        """Restored frames of a sequence, in order; uint8 (H, W, 3)."""
        kept = self.examples.get(sequence, {})
        if kept.keys() >= set(frames):
            for name in frames:
                yield read_rgb(kept[name]["restored"])
            return
        store = self.stores[sequence]
        settings = self.model.settings
        protocol = next(
            (entry for entry in PROTOCOLS.values() if entry.name == self.protocol),
            PROTOCOLS[OWN_PROTOCOL],
        )
        numbers = {name: index for index, name in enumerate(store.layout.frames)}
        with self.restoring.progress(f"{self.label}: restore {sequence}, tiles") as show:
            yield from restore_frames(
                self.model.restore_tiles,
                StoredSequence(store),
                protocol.tiling(settings.TEST.TILE, settings.DATA.CLIP_LEN),
                tiles_at_once=settings.TEST.BATCH_SIZE,
                readers=settings.TEST.NUM_WORKERS,
                wanted=[numbers[name] for name in frames],
                progress=show,
            )
