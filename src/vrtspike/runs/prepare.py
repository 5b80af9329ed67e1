"""Settle what is computed in a run folder, before anything is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vrtspike.config import load_preset
from vrtspike.config.loading import check_files, settings_from
from vrtspike.config.merging import overlay, parse_overrides
from vrtspike.config.packages import check_packages
from vrtspike.config.reading import given_document
from vrtspike.errors import RunError
from vrtspike.problems import find_problem
from vrtspike.runs.identity import RunIdentity, identify, result_settings
from vrtspike.runs.names import SETTINGS
from vrtspike.runs.statistics import write_statistics
from vrtspike.runs.weight_files import weight_digests


def prepare_folder(
    folder: Path, *, preset: Path | None, dataset: Path | None, overrides: Sequence[str]
) -> None:
    """See to it that a run folder says what shall be computed.

    That is ``settings.json``, and ``statistics.json`` for those who will use the weights.

    Args:
        folder: the run's folder.
        preset: preset file of a new run; None continues the run in the folder.
        dataset: dataset manifest of a new run.
        overrides: replaced keys such as ``TRAIN.BATCH_SIZE=2``.

    Raises:
        RunError: if the folder belongs to another run, or overrides would make it another one, or
            data or weights of a run that is continued have changed since.
        ConfigError: if preset or overrides are wrong.
    """
    if (preset is None) != (dataset is None):
        raise RunError("--preset and --dataset belong together: give both, or neither to continue")
    known = RunIdentity.read(folder) if (folder / SETTINGS).is_file() else None
    if known is None and preset is None:
        raise RunError(
            f"{folder / SETTINGS}: no such file. Name the folder of an existing run, or give "
            "--preset and --dataset to start one there"
        )
    if preset is not None and dataset is not None:
        settings = load_preset(preset, overrides)
        check_files(settings)
        check_packages(settings)
        run = identify(preset.stem, settings, dataset)
        if known is not None and known.fingerprint != run.fingerprint:
            raise RunError(
                f"{folder}: holds run {known.fingerprint}; this would be run {run.fingerprint} "
                "(other settings, data or weights). Name another folder, or leave --preset out to "
                "continue"
            )
        run.write(folder)
        write_statistics(folder)
        return
    assert known is not None
    if overrides:
        document = given_document(known.settings.model_dump(mode="json"), str(folder / SETTINGS))
        settings = settings_from(overlay(document, parse_overrides(overrides)))
        if result_settings(settings) != result_settings(known.settings):
            raise RunError(
                f"--set {' '.join(overrides)} changes the result of the run in {folder}; start a "
                "new run with --preset and --dataset in another folder"
            )
        known = replace(known, settings=settings)
    _check_unchanged(known, folder)
    if overrides:
        known.write(folder)
    write_statistics(folder)


def _check_unchanged(run: RunIdentity, folder: Path) -> None:
    problem = find_problem(run.settings.TASK)
    found = {run.dataset: (run.dataset_digest, problem.dataset_digest(Path(run.dataset)))}
    files = problem.training_weights(run.settings)
    for key, digest in weight_digests(files).items():
        found[f"{key} ({files[key]})"] = (run.weights.get(key), digest)
    for what, (then, now) in found.items():
        if then != now:
            raise RunError(
                f"{folder}: {what} has changed since this run began, and its result would be that "
                "of neither; start a new run with --preset and --dataset in another folder"
            )
