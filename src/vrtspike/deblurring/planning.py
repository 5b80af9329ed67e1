"""What the workflow asks about the data of deblurring while it plans, and quickly.

Raw data: what is there, whether it changed, what is made before, what programs are told. Shards:
how many there are, what of them is damaged. Snakemake compares the file of a shard; what lies
behind it, a manifest and a store for each sequence, is looked at here, as cheaply as thousands of
sequences ask for: sizes and dates, and contents only where these differ.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from vrtspike.data.clips.requirements import (
    crop_sizes,
    require_sequences_to_hold_out,
    require_spikes,
)
from vrtspike.data.datasets import Dataset, DeblurringWorkflow
from vrtspike.data.manifests import SURVEY, is_damaged, surveyed
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.nearby import spike_roots
from vrtspike.data.raw.survey import survey
from vrtspike.data.raw.versions import folder_version, source_version
from vrtspike.data.shards import members, shard_count, shard_names, shard_of
from vrtspike.io.files import json_digest
from vrtspike.io.manifests import ManifestKind, read_manifest, size_and_date
from vrtspike.settings import Settings
from vrtspike.settings.workflow import CalibrateSettings, SimulatedSequence, SimulateSettings
from vrtspike.system.errors import ConfigError, DataError, list_faults, named_faults
from vrtspike.workflow.messages import Notices

NO_DATA = """Before this can run: {error}
Set DATA.ROOT, in config/config.yaml unless a preset or --config gives it.
Without data: make demo"""
FAULTS = {
    "stop": "A run looks into all other files, lists every fault, and stops before computing.",
    "exclude": "A run goes on without these sequences (DATA.ON_ERROR: exclude).",
}
MISSING = "missing"
"""The version of what is not there: the job meets the same error and reports it."""


def _spike_roots(dataset: Dataset, survey: Mapping[str, Any]) -> list[Path]:
    """Folders near the root of a data set that hold the spikes of its first sequence."""
    first = survey["sequences"][0]
    return spike_roots(Path(dataset.root), first["split"], first["name"], dataset.layout)


class RawState(NamedTuple):
    """The raw files of a sequence."""

    version: str
    """Changes with their contents, see :func:`source_version`."""
    nbytes: int
    """Bytes of all of them."""


class RawData:
    """The data sets of a configuration; each is looked at once.

    Args:
        workflow: the configuration.
        is_dry_run: asked when a data set is looked at; in a run the jobs tell all faults.
        notices: take what a user should read at the end; missing data are a plan's failure.
        measures: whether sizes and dates of files are asked for, or names only; a job of a cluster
            that plans for itself alone needs no more.
    """

    def __init__(
        self,
        workflow: DeblurringWorkflow,
        is_dry_run: Callable[[], bool],
        notices: Notices,
        measures: bool = True,
    ) -> None:
        self._workflow, self._is_dry_run = workflow, is_dry_run
        self._notices, self._measures = notices, measures
        self._look = cache(self._look_at)
        # Asked once: while jobs run, their results come and go.
        self.shards = cache(self._find_shards)

    def survey(self, dataset: Dataset) -> dict[str, Any] | None:
        """What stands below a folder that users fill; None of generated data.

        None, and a notice, without data.
        """
        return self._look(dataset)[0]

    def states(self, dataset: Dataset) -> dict[str, RawState]:
        """The raw files of each sequence below a folder that users fill, by ``<split>/<name>``.

        None of generated data, and none where nobody measures.
        """
        return self._look(dataset)[1]

    def folder(self, dataset: Dataset) -> Path:
        """Where the results of a data set are written."""
        return self._workflow.results / "data" / dataset.name

    def _look_at(self, dataset: Dataset) -> tuple[dict[str, Any] | None, dict[str, RawState]]:
        if dataset.kind != "raw":
            return None, {}
        splits = [dataset.train_split, dataset.val_split]
        states: dict[str, RawState] = {}

        def look(files: SequenceFiles) -> None:
            name = f"{files.split}/{files.name}"
            manifest = self.folder(dataset) / "ingest" / f"{name}.json"
            version = source_version(dataset.root, files, manifest)
            sizes = (size_and_date(Path(dataset.root), path)[0] for path in files.paths)
            states[name] = RawState(version, sum(max(0, size) for size in sizes))

        try:
            known = survey(
                *(dataset.root, splits, dataset.blur_dir, dataset.layout),
                look=look if self._measures else None,
                spike_root=dataset.spike_root,
            )
        except DataError as error:
            self._notices.add(NO_DATA.format(error=error))
            self._notices.exit_status = int(self._is_dry_run())
            return None, {}
        if known["excluded"] and self._is_dry_run():
            title = f"\n{dataset.root} has faults, as far as names show"
            faults = named_faults(known["excluded"])
            self._notices.add(list_faults(title, faults, FAULTS[dataset.on_error]))
        if (foreign := known.get("passed_over")) and self._is_dry_run():
            self._notices.add(
                f"{dataset.root}: {len(foreign)} folders passed over: {', '.join(foreign)}"
            )
        return known, {name: states[name] for name in surveyed(known) if name in states}

    def found(self, dataset: Dataset) -> str | None:
        """Changes when sequences are added to or removed from a data root that users fill.

        Generated data change with the jobs before.
        """
        known = self.survey(dataset)
        if known is None:
            return None
        # What is passed over changes nothing.
        told = {k: v for k, v in known.items() if k != "passed_over"}
        return f"names below the data's folder: {json_digest(told)[:12]}"

    def require_spikes(self, preset: str, settings: Settings) -> None:
        """Refuse a preset with spikes for a folder without, as far as names show.

        Raises:
            ConfigError: naming both.
        """
        dataset = self._workflow.dataset(preset)
        if known := self.survey(dataset):
            elsewhere = [] if known["spikes"] else _spike_roots(dataset, known)
            title = f"preset {preset}, {dataset.root}"
            require_spikes(title, known["spikes"], settings, elsewhere)

    def note_own_data(self, preset: str) -> None:
        """Say that a preset takes generated data of its own, where the user has named others."""
        named = self._workflow.workflow.settings.DATA.get("ROOT")
        dataset = self._workflow.dataset(preset)
        if dataset.kind != "demo" or named in (None, dataset.root) or not Path(named).is_dir():
            return
        self._notices.add(
            f"preset {preset} takes generated data ({dataset.root}, its own DATA.ROOT), not those "
            f"of config/config.yaml ({named}); on these train light_small or light: "
            "snakemake --cores all train_light_small"
        )

    def require_sequences_to_hold_out(self, preset: str, settings: Settings) -> None:
        """Refuse a preset that holds out sequences for data with a single training sequence.

        Raises:
            ConfigError: naming both.
        """
        if settings.kept_start is not None:
            return
        dataset = self._workflow.dataset(preset)
        split = f"{settings.DATA.TRAIN_SPLIT}/"
        count = sum(name.startswith(split) for name in self._expected_sequences(dataset))
        require_sequences_to_hold_out(f"preset {preset}, {dataset.root}", count, settings.DATA)

    def _expected_sequences(self, dataset: Dataset) -> list[str]:
        """The sequences as ``<split>/<name>``, as far as names and the configuration show.

        Those with faults count unless they are to be excluded: the gate lists the faults.
        """
        if dataset.kind == "simulated":
            sources = self._workflow.settings.SIMULATE.SEQUENCES
            return [f"{source.SPLIT}/{source.SEQUENCE}" for source in sources]
        survey = self.survey(dataset)
        if survey is None:
            return []
        faulty = survey["excluded"] if dataset.on_error == "stop" else []
        return [*surveyed(survey), *faulty]

    def _find_shards(self, dataset: Dataset) -> list[str]:
        """The shards of a data set, those that hold no sequence left out as far as it is known."""
        bounds, states = self._workflow.settings.SHARDS, self.states(dataset)
        nbytes = sum(state.nbytes for state in states.values())
        sequences = len(states) or len(dataset.sources)
        count = shard_count(sequences, nbytes, bounds.SEQUENCES, bounds.GB * 1e9)
        held = {shard_of(name, count) for name in self._sequences(dataset)}
        return sorted(held) or shard_names(count)

    def shard_size(self, dataset: Dataset, shard: str) -> int | None:
        """How many sequences fall into a shard; None where that is not known yet."""
        return len(members(shard, self._sequences(dataset))) or None

    def _sequences(self, dataset: Dataset) -> list[str]:
        """The sequences of a data set; none where there is no survey of it yet."""
        if states := self.states(dataset):
            return list(states)
        try:
            return surveyed(read_manifest(self.folder(dataset) / "survey.json", SURVEY))
        except DataError:
            return []

    def versions(self, dataset: Dataset, shard: str) -> list[str]:
        """A line for each sequence of a shard, which changes with the contents of its raw files.

        Only of folders that users fill: generated files change with the job that makes them.
        """
        states = self.states(dataset)
        return [f"raw files of {n}: {states[n].version[:12]}" for n in members(shard, states)]


def damaged_sequences(folder: Path, shard: str, kind: ManifestKind) -> str:
    """Which of the sequences that the file of a shard lists are damaged; empty where none is.

    A sequence with files that could not be read counts, too.

    Args:
        folder: of the results of ``ingest`` or ``voxelize``.
        shard: its name.
        kind: of its file.
    """
    try:
        listed = read_manifest(folder / "shards" / f"{shard}.json", kind)["sequences"]
    except DataError:
        return ""
    names = [name for name, entry in sorted(listed.items()) if is_damaged(folder, name, entry)]
    return f"results missing or damaged: {len(names)}, the first {names[0]}" if names else ""


def inputs_version(what: str, *places: str | None) -> str:
    """A line that changes with the files below some folders, not when they are touched."""
    version = folder_version(*(Path(place) for place in places if place))
    return f"{what}: {version[:12]}" if version else MISSING


def calibration_options(calibrate: CalibrateSettings) -> str:
    """What the calibration of one's own cameras takes."""
    own = ("MOST_STEPS", "STATIC", "MOVING", "DATA", "SENSOR")
    return _options({"output": calibrate.ROOT, **{name: getattr(calibrate, name) for name in own}})


def _options(values: Mapping[str, Any]) -> str:
    """Options of a program that are called as keys are; none for None."""
    words: list[str] = []
    for name, value in values.items():
        option = f"--{name.lower().replace('_', '-')}"
        if isinstance(value, tuple):
            words += [option, *map(str, value)]
        elif value is not None:
            words.append(f"{option}={value}")
    return shlex.join(words)


def raw_file_options(dataset: Dataset) -> str:
    """Which raw files a data set has and how they are named."""
    own = ("root", "blur_dir", "layout", "spike_root")
    return _options({name: getattr(dataset, name) for name in own})


def sensor_option(dataset: Dataset) -> str:
    """The size of the spike sensor where the configuration gives it."""
    return _options({"spike_size": dataset.spike_size})


def clip_options(workflow: DeblurringWorkflow, dataset: str) -> str:
    """What the clips that presets take from a data set ask of it at least."""
    data = workflow.named(dataset)
    every = [p for name, p in workflow.presets.items() if workflow.by_preset[name] == data]
    presets = [preset for preset in every if preset.kept_start is None] or every
    sizes = [f"{split}={size}" for split, size in crop_sizes(presets).items()]
    frames = min(preset.DATA.CLIP_LEN for preset in presets)
    return shlex.join(["--clip-length", str(frames), "--crop-sizes", *sizes])


def split_options(dataset: Dataset) -> str:
    """What a data set is divided into, and whether the parts may overlap."""
    splits = ["--train-split", dataset.train_split, "--val-split", dataset.val_split]
    return shlex.join(splits + ["--test-on-training-frames"] * dataset.test_on_training_frames)


def simulated_sequence(simulate: SimulateSettings, split: str, sequence: str) -> SimulatedSequence:
    """The configured source of a simulated sequence.

    Raises:
        ConfigError: if there is none.
    """
    for source in simulate.SEQUENCES:
        if split == source.SPLIT and sequence == source.SEQUENCE:
            return source
    raise ConfigError(f"SIMULATE.SEQUENCES has no {split}/{sequence}")


def simulation_options(simulate: SimulateSettings, source: SimulatedSequence) -> str:
    """How a sequence is simulated."""
    own = {"frames": source.FRAMES, "output": simulate.ROOT}
    own["frames_per_exposure"] = str(source.FRAMES_PER_EXPOSURE)
    return _options({**own, **simulate.model_dump(exclude={"ROOT", "SEQUENCES"})})
