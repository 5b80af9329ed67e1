"""Trackers of a run: TensorBoard, Weights & Biases (LOG.WANDB) and MLflow (LOG.MLFLOW).

The packages of both services are optional. The run ID of a service is kept in the run's folder, so
that a resumed run continues there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.config.fields import shown_tree
from vrtspike.io.files import read_json, write_errors_name, write_json
from vrtspike.io.flatten import flatten
from vrtspike.runs.file_names import LOGS, TENSORBOARD
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import RunError
from vrtspike.training.validation import ValidationPictures

if TYPE_CHECKING:
    from mlflow.utils.async_logging.run_operations import RunOperations
    from torch.utils.tensorboard import SummaryWriter

RUN_IDS = f"{LOGS}/trackers.json"
"""File in a run's folder: run ID by service."""


class Tracker:
    """Receiver of a run's values; a method does nothing unless a tracker defines it."""

    def begin(self, step: int) -> None:
        """Begin, or continue after ``step``; what was logged of later steps does not count."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the values of a step, by name; steps are increasing."""

    def log_pictures(self, step: int, pictures: ValidationPictures) -> None:
        """Log the pictures of a validation."""

    def flush(self) -> None:
        """Write what is buffered, before a checkpoint."""

    def close(self, finished: bool) -> None:
        """Send remaining values and the final state."""


class TensorBoard(Tracker):
    """Event files of TensorBoard.

    Args:
        folder: folder of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._board: SummaryWriter | None = None

    def begin(self, step: int) -> None:
        """Open a file that hides what earlier ones have of the steps after ``step``."""
        # Imported here, because the import takes time.
        from torch.utils.tensorboard import SummaryWriter

        self._board = SummaryWriter(str(self._folder), purge_step=step + 1)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the values of a step."""
        if self._board is None:
            return
        # An error of TensorBoard's writer thread is raised here.
        with write_errors_name(self._folder):
            for name, value in values.items():
                self._board.add_scalar(name, value, step)

    def log_pictures(self, step: int, pictures: ValidationPictures) -> None:
        """Log the pictures of a validation."""
        if self._board is None:
            return
        for name, picture in pictures.items():
            self._board.add_image(name, picture, step, dataformats="HWC")

    def flush(self) -> None:
        """Write the buffer, so that a crash after a checkpoint leaves no gap."""
        if self._board is not None:
            self._board.flush()

    def close(self, finished: bool) -> None:
        """Close the file."""
        if self._board is not None:
            self._board.close()


class Wandb(Tracker):
    """A run of Weights & Biases; its variables (WANDB_MODE, WANDB_API_KEY ...) are respected.

    Args:
        project: name of the project.
        run: identity of the training.
        folder: folder of the run; local files go there.
        run_id: ID of the run to continue; None starts a new one.

    Raises:
        RunError: if the run cannot be started.
    """

    def __init__(self, project: str, run: RunIdentity, folder: Path, run_id: str | None) -> None:
        import wandb

        try:
            self._run = wandb.init(
                project=project,
                name=f"{run.name} {run.fingerprint}",
                id=run_id,
                resume="allow",
                dir=str(folder),
                config=shown_tree(run.settings),
                # The terminal output is not sent.
                settings=wandb.Settings(console="off", silent=True),
            )
        except wandb.Error as error:
            raise RunError(
                f"LOG.WANDB: {error}; log in (wandb login), set WANDB_MODE=offline, or remove the "
                "key"
            ) from error
        self.run_id: str = self._run.id

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the values of a step."""
        self._run.log(dict(values), step=step)

    def close(self, finished: bool) -> None:
        """Wait until all values are sent."""
        self._run.finish(exit_code=0 if finished else 1)


class Mlflow(Tracker):
    """A run of MLflow, on the server or store MLFLOW_TRACKING_URI.

    Args:
        experiment: name of the experiment; it is created if it does not exist.
        run: identity of the training.
        run_id: ID of the run to continue; None starts a new one.
        warn: function called with a message if the last values could not be sent; the training
            continues.

    Raises:
        RunError: if the run cannot be started.
    """

    def __init__(
        self,
        experiment: str,
        run: RunIdentity,
        run_id: str | None,
        warn: Callable[[str], None],
    ) -> None:
        import mlflow

        self._mlflow = mlflow
        self._warn = warn
        self._last: RunOperations | None = None
        # A single thread keeps the order; several may create a folder of a store twice, and fail.
        os.environ.setdefault("MLFLOW_ASYNC_LOGGING_THREADPOOL_SIZE", "1")
        try:
            mlflow.set_experiment(experiment)
            begun = mlflow.start_run(run_id, run_name=f"{run.name} {run.fingerprint}")
            if run_id is None:
                mlflow.log_params(flatten(shown_tree(run.settings)))
        except (mlflow.exceptions.MlflowException, ImportError) as error:
            raise RunError(
                f"LOG.MLFLOW: {error}; set MLFLOW_TRACKING_URI to a server, or remove the key"
            ) from error
        self.run_id = str(begun.info.run_id)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the values of a step asynchronously, so that a slow server delays nothing."""
        self._last = self._mlflow.log_metrics(dict(values), step=step, synchronous=False)

    def close(self, finished: bool) -> None:
        """Send the remaining values."""
        try:
            if self._last is not None:
                self._last.wait()  # they are sent in order
        except self._mlflow.exceptions.MlflowException as error:
            self._warn(f"warning: LOG.MLFLOW: values were not sent: {error}")
        self._mlflow.end_run("FINISHED" if finished else "KILLED")


def open_trackers(run: RunIdentity, folder: Path, warn: Callable[[str], None]) -> list[Tracker]:
    """Open the trackers of LOG.TENSORBOARD, LOG.WANDB and LOG.MLFLOW.

    Args:
        run: identity of the training.
        folder: folder of the run, with the run IDs of an earlier start.
        warn: function called with a message if the last values could not be sent.

    Raises:
        RunError: if a service cannot start.
    """
    log = run.settings.LOG
    earlier_ids: dict[str, str] = {}
    if (folder / RUN_IDS).is_file():
        earlier_ids = read_json(folder / RUN_IDS)
    services: dict[str, Wandb | Mlflow] = {}
    if log.WANDB is not None:
        services["wandb"] = Wandb(log.WANDB, run, folder, earlier_ids.get("wandb"))
    if log.MLFLOW is not None:
        services["mlflow"] = Mlflow(log.MLFLOW, run, earlier_ids.get("mlflow"), warn)
    run_ids = earlier_ids | {name: service.run_id for name, service in services.items()}
    if run_ids != earlier_ids:
        write_json(folder / RUN_IDS, run_ids)
    boards = [TensorBoard(folder / TENSORBOARD)] if log.TENSORBOARD else []
    return [*boards, *services.values()]
