"""The results of a run: its evaluation, its test frames, and frames that it restores again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from vrtspike.analysis.comparisons.quality_tables import protocols
from vrtspike.analysis.evaluation_files import (
    EXAMPLES,
    FRAMES,
    EvaluationSummary,
    ProtocolResults,
    evaluation_folder,
    find_evaluation,
)
from vrtspike.config.tasks import DEFAULT_PROTOCOL
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.rgb_images import Image
from vrtspike.data.store.reading import Store
from vrtspike.deblurring_settings import require_deblurring_settings
from vrtspike.evaluation.protocols import PROTOCOLS
from vrtspike.io.images import read_gray, read_rgb
from vrtspike.launching.gpus import GPU_TIMEOUT_S, DeviceName, acquire_device
from vrtspike.paper_figures.recorded_spikes import RecordedSpikes
from vrtspike.paper_figures.results import FRAME_COLUMNS, Cost, ModelResult, RestoredSequence
from vrtspike.reporting.evaluation_data import read_examples, read_table
from vrtspike.restoration.inputs.clip_source import StoreClipSource
from vrtspike.restoration.loading import load
from vrtspike.restoration.tiled_inference import restore_frames
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.runs.published import PublishedRun, read_published
from vrtspike.system.errors import ConfigError
from vrtspike.system.progress_bar import OpenProgress

_ADVICE = "evaluate the run again"

_Pictures: TypeAlias = Mapping[str, Path]
"""Files of the pictures of a frame that an evaluation kept, by kind."""


class RunRestorer:
    """Restores frames of test splits again, as the evaluations of runs did.

    The device is taken for the first frame until the body ends: others may need the GPU if no frame
    has to be restored.

    Args:
        device_name: as for :func:`~vrtspike.launching.gpus.acquire_device`.
        open_progress: opens the progress of a sequence.
    """

    def __init__(self, device_name: DeviceName, open_progress: OpenProgress) -> None:
        self._device_name = device_name
        self._progress = open_progress
        self._taken = ExitStack()
        self._models: dict[Path, TrainedModel] = {}

    def __enter__(self) -> Self:
        """Do not take a GPU yet: if no frame has to be restored, others may use it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Release the device."""
        self._taken.close()

    @cached_property
    def device(self) -> torch.device:
        """The device that computes."""
        return self._taken.enter_context(acquire_device(self._device_name, GPU_TIMEOUT_S))

    def model(self, folder: Path) -> TrainedModel:
        """Return the model of a run's result folder, in float32 as in its evaluation."""
        if folder not in self._models:
            self._models[folder] = load(folder, device=self.device, precision="float32")
        return self._models[folder]

    def restore(
        self, folder: Path, protocol: str, title: str, store: Store, numbers: Sequence[int]
    ) -> Iterator[Image]:
        """Restore frames of a sequence.

        Args:
            folder: result folder of the run.
            protocol: protocol of the evaluation, which gives the tiling.
            title: title of the progress.
            store: store of the sequence.
            numbers: positions of the frames in the sequence.

        Yields:
            the frames in order, uint8 (H, W, 3).
        """
        model = self.model(folder)
        settings = model.settings
        evaluation_protocol = next(
            (entry for entry in PROTOCOLS.values() if entry.name == protocol),
            PROTOCOLS[DEFAULT_PROTOCOL],
        )
        with self._progress(title) as show:
            yield from restore_frames(
                model.tile_model,
                StoreClipSource(store),
                evaluation_protocol.tiling(settings),
                tiles_at_once=settings.TEST.BATCH_SIZE,
                readers=settings.TEST.NUM_WORKERS,
                wanted=numbers,
                progress=show,
            )


class StoreSequence(RestoredSequence):
    """A sequence of a store.

    Args:
        name: name of the sequence.
        store: store of the sequence.
        restore: restores frames that were not kept, by their positions in the store.
        kept: pictures of the frames that the evaluation kept, by frame.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        restore: Callable[[Store, Sequence[int]], Iterator[Image]],
        kept: Mapping[str, _Pictures],
    ) -> None:
        metadata = store.metadata
        self.name = name
        self.frames = metadata.frames
        self.has_recorded_spikes = metadata.spike_size is not None
        self._store = store
        self._restore = restore
        self._kept = kept
        self._numbers = {frame: number for number, frame in enumerate(metadata.frames)}

    def blurry(self, frame: str) -> Image:
        """Return a blurry frame."""
        return self._store.frame("blur", self._numbers[frame])

    def sharp(self, frame: str) -> Image:
        """Return a sharp frame."""
        return self._store.frame("sharp", self._numbers[frame])

    def recorded(self, frame: str) -> RecordedSpikes:
        """Return the stored spikes of a frame."""
        metadata = self._store.metadata
        assert metadata.spike_size is not None
        number = self._numbers[frame]
        return RecordedSpikes(
            PackedSpikes(self._store.frame("bits", number), metadata.spike_size[1]),
            metadata.exposures[number],
            metadata.ratio,
            f"{self._store.path}, frame {frame}",
        )

    def restored(self, frames: Sequence[str]) -> Iterator[Image]:
        """Return the kept frames, if all are kept; else restore all of them again."""
        if self._kept.keys() >= set(frames):
            return _read_restored(self._kept, frames)
        return self._restore(self._store, [self._numbers[frame] for frame in frames])


class KeptSequence(RestoredSequence):
    """The frames of a sequence that an evaluation kept as pictures.

    Args:
        name: name of the sequence.
        kept: pictures by frame.
    """

    is_complete = False

    def __init__(self, name: str, kept: Mapping[str, _Pictures]) -> None:
        self.name = name
        self.frames = list(kept)
        self._kept = kept

    def blurry(self, frame: str) -> Image:
        """Return a blurry frame."""
        return read_rgb(self._kept[frame]["blurry"])

    def sharp(self, frame: str) -> Image:
        """Return a sharp frame."""
        return read_rgb(self._kept[frame]["sharp"])

    def restored(self, frames: Sequence[str]) -> Iterator[Image]:
        """Return restored frames."""
        return _read_restored(self._kept, frames)

    def spikes(self, frame: str) -> NDArray[np.uint8] | None:
        """Return the picture from spikes, if it was kept of every frame."""
        if all("spikes" in pictures for pictures in self._kept.values()):
            return read_gray(self._kept[frame]["spikes"])
        return None


def _read_restored(kept: Mapping[str, _Pictures], frames: Sequence[str]) -> Iterator[Image]:
    """Yield the restored frames that an evaluation kept as pictures."""
    for frame in frames:
        yield read_rgb(kept[frame]["restored"])


def read_run_result(
    folder: Path, restorer: RunRestorer, protocol: str | None = None, label: str | None = None
) -> ModelResult:
    """Read the results of a finished run.

    Args:
        folder: ``results/train/<preset>``; the evaluation is in ``results/evaluate/<preset>``.
        restorer: restores frames that the evaluation did not keep.
        protocol: protocol of the PSNR; None takes the main one of the evaluation.
        label: name in figures; None takes the preset's.

    Raises:
        ConfigError: if the run restores no videos, or its evaluation lacks the protocol.
        RunError: if a file is missing or damaged.
    """
    run = read_published(folder)
    settings = require_deblurring_settings(run.settings, run.name)
    name = label or run.name
    notes = []
    summary = find_evaluation(folder, run)
    frame_psnr = pd.DataFrame(columns=FRAME_COLUMNS)
    cost = None
    shown_protocol = protocol or settings.TEST.PROTOCOL[0]
    kept: Mapping[str, Mapping[str, _Pictures]] = {}
    if summary is None:
        notes.append(f"{name}: not evaluated, no {evaluation_folder(folder)} of this run")
    else:
        main_protocol = summary["protocol"]
        shown_protocol = protocol or main_protocol
        chosen = _results_of(summary, shown_protocol, folder)
        frame_psnr = _frame_psnr(evaluation_folder(folder), shown_protocol)
        cost = _cost(summary, chosen)
        notes += [f"{name}: {warning}" for warning in summary.get("warnings", ())]
        # The kept pictures are those of the main protocol.
        if shown_protocol == main_protocol:
            kept = _read_examples(evaluation_folder(folder) / EXAMPLES)
    stores = _find_stores(folder, run, summary)
    clips: dict[str, RestoredSequence] = {}
    if stores:
        for sequence, store in stores.items():
            title = f"{name}: restore {sequence}, tiles"
            restore = partial(restorer.restore, folder, shown_protocol, title)
            clips[sequence] = StoreSequence(sequence, store, restore, kept.get(sequence, {}))
    else:
        notes.append(
            f"{name}: the stores of its test data are not beside it (results/data), so only frames "
            "that the evaluation kept as examples can be shown"
        )
        clips |= {sequence: KeptSequence(sequence, pictures) for sequence, pictures in kept.items()}
    return ModelResult(name, str(folder), clips, frame_psnr, cost, notes)


def _results_of(summary: EvaluationSummary, protocol: str, folder: Path) -> ProtocolResults:
    """Return the part of a summary for one protocol.

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
    """Return the PSNR of every frame under a protocol; empty if it was not measured."""
    table = read_table(folder / FRAMES, _ADVICE)
    rows = table[table["protocol"] == protocol]
    if not {"psnr", "psnr_blur"} <= set(rows.columns):
        return pd.DataFrame(columns=FRAME_COLUMNS)
    return rows[FRAME_COLUMNS].reset_index(drop=True)


def _cost(summary: EvaluationSummary, chosen: ProtocolResults) -> Cost | None:
    """Return quality and cost of an evaluation; None without PSNR."""
    psnr = chosen["metrics"].get("psnr", {}).get("restored")
    if psnr is None:
        return None
    # The model is timed under the main protocol, whose tiling others may not share.
    is_main = chosen["protocol"] == summary["protocol"]
    return Cost(
        psnr=psnr,
        parameters=summary.get("parameters"),
        seconds=summary.get("model_seconds_per_frame") if is_main else None,
        device=summary.get("device", ""),
        dataset=summary["dataset"],
        protocol=chosen["protocol"],
    )


def _find_stores(
    folder: Path, run: PublishedRun, summary: EvaluationSummary | None
) -> dict[str, Store]:
    """Return the stores of the test split by sequence; empty if they are not there.

    Stores of other data than the evaluated ones do not count.
    """
    recorded = Path(run.dataset)
    neighbor = folder.absolute().parent.parent.joinpath("data", *recorded.parts[-3:])
    digest = run.dataset_digest if summary is None else summary["dataset_digest"]
    split = require_deblurring_settings(run.settings, run.name).DATA.TEST_SPLIT
    for path in (neighbor, recorded):
        if not path.is_file():
            continue
        manifest = load_dataset(path)
        entries = manifest.split(split)
        if manifest.digest == digest and all(entry.store.is_dir() for entry in entries):
            return {entry.name: Store(entry.store) for entry in entries}
    return {}


def _read_examples(folder: Path) -> dict[str, dict[str, _Pictures]]:
    """Read which frames an evaluation kept as pictures; none without their index."""
    examples: dict[str, dict[str, _Pictures]] = {}
    for example in read_examples(folder)["examples"]:
        files = {kind: folder / file for kind, file in example["files"].items()}
        examples.setdefault(example["sequence"], {})[example["frame"]] = files
    return {sequence: dict(sorted(frames.items())) for sequence, frames in examples.items()}
