"""The folder of one run: what it computes, who is computing it, and what has happened so far."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vrtspike.config import Settings, load_preset, result_settings
from vrtspike.config.loading import check_files, load_settings_file, settings_from
from vrtspike.config.merging import overlay, parse_overrides
from vrtspike.config.reading import given_document
from vrtspike.data.clips.requirements import require_spikes
from vrtspike.data.manifests import DATASET, read_manifest
from vrtspike.errors import RunError
from vrtspike.files import finite_or_null, json_digest, read_json, write_json
from vrtspike.locks import lock_file, require_lock_file
from vrtspike.provenance import code_digest

SETTINGS = "settings.json"
RECORD = "run.json"
LOCK = "lock"
LOCK_PATIENCE_S = 60.0
_POLL_S = 0.2


@dataclass(frozen=True)
class ResolvedRun:
    """Everything that decides a run; ``settings.json`` in its folder, the trainer's only input.

    Attributes:
        name: the preset.
        settings: complete.
        dataset: path of the dataset manifest.
        fingerprint: digest of what changes the result; names the folder.
    """

    name: str
    settings: Settings
    dataset: str
    fingerprint: str

    def write(self, folder: Path) -> None:
        """Write ``settings.json``."""
        contents = {
            "schema": 1,
            "NAME": self.name,
            "DATASET": self.dataset,
            "FINGERPRINT": self.fingerprint,
            "SETTINGS": self.settings.model_dump(mode="json"),
        }
        write_json(folder / SETTINGS, contents)

    @classmethod
    def read(cls, folder: Path) -> ResolvedRun:
        """Read ``settings.json``.

        Raises:
            RunError: if it is missing, not such a file, or of another version of this project.
        """
        path = folder / SETTINGS
        if not path.is_file():
            raise RunError(
                f"{path}: no such file. Name the folder of an existing run, or give --preset and "
                "--dataset to start one there"
            )
        found = read_json(path)
        missing = {"NAME", "SETTINGS", "DATASET", "FINGERPRINT"} - set(found)
        if missing:
            raise RunError(f"{path}: not the settings of a run, {sorted(missing)[0]} is missing")
        try:
            settings = Settings.model_validate(found["SETTINGS"])
        except ValidationError as error:
            raise RunError(
                f"{path}: written by another version of this project ({error})"
            ) from error
        return cls(found["NAME"], settings, found["DATASET"], found["FINGERPRINT"])


def resolve_run(name: str, settings: Settings, dataset: Path, code: str) -> ResolvedRun:
    """Name a run by what decides its result: settings, contents of the data set, and code.

    Args:
        name: the preset.
        settings: complete.
        dataset: the dataset manifest.
        code: digest of the training code.

    Raises:
        DataError: if there is no such dataset manifest, or not one of this version.
        ConfigError: if the model or its teacher needs spikes and the data set has none.
    """
    manifest = read_manifest(dataset, DATASET)
    _check_spikes(dataset, manifest["statistics"] is not None, settings)
    decisive = {
        "settings": result_settings(settings),
        "dataset": manifest["digest"],
        "code": code,
    }
    return ResolvedRun(name, settings, str(dataset.resolve()), json_digest(decisive)[:12])


def _check_spikes(dataset: Path, has_spikes: bool, settings: Settings) -> None:
    require_spikes(str(dataset), has_spikes, settings)
    teacher = settings.TRAIN.DISTILL.TEACHER if settings.TRAIN.DISTILL else None
    # One that is missing is reported where its weights are read.
    if teacher is not None and (Path(teacher) / SETTINGS).is_file():
        taught = load_settings_file(Path(teacher) / SETTINGS)
        require_spikes(f"{dataset}, with TRAIN.DISTILL.TEACHER {teacher}", has_spikes, taught)


def prepare_folder(
    folder: Path,
    *,
    preset: Path | None,
    dataset: Path | None,
    overrides: Sequence[str],
    program: Path,
    neutral: Sequence[str] = (),
) -> None:
    """See to it that ``settings.json`` in a run folder says what shall be computed.

    Args:
        folder: the run's folder.
        preset: preset file of a new run; None continues the run in the folder.
        dataset: dataset manifest of a new run.
        overrides: replaced keys such as ``TRAIN.BATCH_SIZE=2``.
        program: the training program, whose code is part of the run's fingerprint.
        neutral: packages that are not.

    Raises:
        RunError: if the folder belongs to another run, or overrides would make it another one, or
            the data set of a run that is continued has changed since.
        ConfigError: if preset or overrides are wrong.
    """
    if (preset is None) != (dataset is None):
        raise RunError("--preset and --dataset belong together: give both, or neither to continue")
    known = ResolvedRun.read(folder) if (folder / SETTINGS).is_file() or not preset else None
    if preset is not None and dataset is not None:
        settings = load_preset(preset, overrides)
        check_files(settings)
        code = code_digest(program, neutral=neutral)
        run = resolve_run(preset.stem, settings, dataset, code)
        if known is not None and known.fingerprint != run.fingerprint:
            raise RunError(
                f"{folder}: holds run {known.fingerprint}; this would be run {run.fingerprint} "
                "(other settings, data or code). Name another folder, or leave --preset out to "
                "continue"
            )
        run.write(folder)
        return
    assert known is not None
    _check_dataset(known, folder)
    if overrides:
        document = given_document(known.settings.model_dump(mode="json"), str(folder / SETTINGS))
        settings = settings_from(overlay(document, parse_overrides(overrides)))
        if result_settings(settings) != result_settings(known.settings):
            raise RunError(
                f"--set {' '.join(overrides)} changes the result of the run in {folder}; start a "
                "new run with --preset and --dataset in another folder"
            )
        replace(known, settings=settings).write(folder)


def _check_dataset(run: ResolvedRun, folder: Path) -> None:
    path = folder / RECORD
    seen = read_json(path).get("dataset_digest") if path.is_file() else None
    if seen is not None and read_manifest(Path(run.dataset), DATASET)["digest"] != seen:
        raise RunError(
            f"{folder}: {run.dataset} has changed since this run began, and its result would be "
            "that of neither; start a new run with --preset and --dataset in another folder"
        )


@contextlib.contextmanager
def hold_run(
    folder: Path, patience_s: float = LOCK_PATIENCE_S, note: Callable[[str], None] = print
) -> Iterator[None]:
    """Be the only process that trains in ``folder``; the lock ends with the process, however.

    Args:
        folder: the run's folder; it is created.
        patience_s: seconds to wait for another process, which may be about to end.
        note: is told when there is something to wait for.

    Raises:
        RunError: naming the process that holds the run, or if something else than a file stands
            where the lock belongs, or the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    require_lock_file(path)
    with path.open("a+", encoding="utf-8") as stream:
        deadline = time.monotonic() + patience_s
        told = False
        while not lock_file(stream.fileno(), path):
            holder = path.read_text(encoding="utf-8").strip() or "another process"
            if time.monotonic() >= deadline:
                raise RunError(
                    f"{folder}: {holder} is training in this run folder; wait for it, or stop it"
                )
            if not told:
                note(f"{folder}: waiting for {holder}, which is training there, to end")
                told = True
            time.sleep(_POLL_S)
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        stream.flush()
        yield


def is_finished(folder: Path) -> bool:
    """Whether the run in ``folder`` has nothing left to do but to be published."""
    path = folder / RECORD
    return path.is_file() and read_json(path)["status"] == "finished"


class RunRecord:
    """``run.json``: configuration, surroundings, starts, state and final figures of a run.

    Args:
        folder: the run's folder.
        enabled: whether this process writes.
    """

    def __init__(self, folder: Path, enabled: bool) -> None:
        self._path = folder / RECORD
        self._enabled = enabled
        known = enabled and self._path.is_file()
        self._contents: dict[str, Any] = read_json(self._path) if known else {"starts": []}

    def start(self, run: ResolvedRun, step: int, **facts: Any) -> None:  # noqa: ANN401
        """Note a start, or a resume after ``step``.

        Args:
            run: what is computed.
            step: finished steps.
            facts: further JSON values; they replace those of an earlier start.
        """
        self._contents |= {
            "schema": 1,
            "name": run.name,
            "fingerprint": run.fingerprint,
            "dataset": run.dataset,
            "settings": run.settings.model_dump(mode="json"),
            **facts,
        }
        self._contents["starts"].append(
            {
                "time": round(time.time(), 3),
                "step": step,
                "host": socket.gethostname(),
                "process": os.getpid(),
                "batch_job": os.environ.get("SLURM_JOB_ID"),
            }
        )
        self.update("running", step)

    def update(self, status: str, step: int, **figures: Any) -> None:  # noqa: ANN401
        """Note where the run stands: ``running``, ``interrupted``, ``failed`` or ``finished``.

        Figures that are not finite (the PSNR of equal frames) become null.
        """
        self._contents |= {
            "status": status,
            "step": step,
            "updated": round(time.time(), 3),
            **figures,
        }
        if self._enabled:
            write_json(self._path, finite_or_null(self._contents))
