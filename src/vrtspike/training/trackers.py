"""A run's figures for Weights & Biases and MLflow, where LOG asks for them.

Both packages are optional, and imported only here. The number that a tracker gives a run is kept in
the run's folder, so that a run that continues goes on in the same place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vrtspike.config.shown import shown_settings
from vrtspike.errors import RunError
from vrtspike.files import read_json, write_json
from vrtspike.flatten import flatten
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.names import LOGS

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.utils.async_logging.run_operations import RunOperations

NUMBERS = f"{LOGS}/trackers.json"
"""In a run's folder: the run's number by tracker."""

_SEND_S = 10.0
_BATCH = 100
"""Most parameters that MLflow takes at once; of figures it takes ten times as many."""


class Tracker(Protocol):
    """Takes a run's figures."""

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Take figures of a step, by name; steps never go back."""

    def close(self, finished: bool) -> None:
        """Send what is left, and how the process ended."""


class Wandb:
    """A run of Weights & Biases; WANDB_MODE, WANDB_API_KEY and the like work as everywhere.

    Args:
        project: its name.
        run: the run.
        folder: of the run; local files go there.
        number: of the run that goes on; None begins one.

    Raises:
        RunError: if no run can be begun.
    """

    def __init__(self, project: str, run: RunIdentity, folder: Path, number: str | None) -> None:
        import wandb

        try:
            self._run = wandb.init(
                project=project,
                name=f"{run.name} {run.fingerprint}",
                id=number,
                resume="allow",
                dir=str(folder),
                config=shown_settings(run.settings),
                # What training prints stays here.
                settings=wandb.Settings(console="off", silent=True),
            )
        except wandb.Error as error:
            raise RunError(
                f"LOG.WANDB: {error}; log in (wandb login), set WANDB_MODE=offline, or remove the "
                "key"
            ) from error
        self.number: str = self._run.id

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Hand the figures to the sender."""
        self._run.log(dict(figures), step=step)

    def close(self, finished: bool) -> None:
        """Wait until everything is sent."""
        self._run.finish(exit_code=0 if finished else 1)


class Mlflow:
    """A run of MLflow; MLFLOW_TRACKING_URI says where.

    Args:
        experiment: its name; it is made where it does not exist.
        run: the run.
        number: of the run that goes on; None begins one.
        warn: told that figures could not be sent; the training goes on.
        clock: seconds since any moment.

    Raises:
        RunError: if the server or the store does not take it.
    """

    def __init__(
        self,
        experiment: str,
        run: RunIdentity,
        number: str | None,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        self._clock, self._sent, self._warn = clock, clock(), warn
        self._last: RunOperations | None = None
        self._waiting: list[tuple[str, float, int, int]] = []
        try:
            self._client = MlflowClient()
            self.number = number or self._begin(self._client, experiment, run)
            self._client.update_run(self.number, status="RUNNING")
        except (MlflowException, ImportError) as error:
            raise RunError(
                f"LOG.MLFLOW: {error}; set MLFLOW_TRACKING_URI to a server, or remove the key"
            ) from error

    @staticmethod
    def _begin(client: MlflowClient, experiment: str, run: RunIdentity) -> str:
        from mlflow.entities import Param

        known = client.get_experiment_by_name(experiment)
        place = known.experiment_id if known else client.create_experiment(experiment)
        name = f"{run.name} {run.fingerprint}"
        number = str(client.create_run(place, run_name=name).info.run_id)
        flat = flatten(shown_settings(run.settings))
        params = [Param(key, str(value)) for key, value in flat.items()]
        for first in range(0, len(params), _BATCH):
            client.log_batch(number, params=params[first : first + _BATCH])
        return number

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Take the figures; they are sent every few seconds."""
        now = int(1000 * time.time())
        self._waiting += [(name, float(value), now, step) for name, value in figures.items()]
        if self._clock() - self._sent >= _SEND_S:
            self._send()

    def close(self, finished: bool) -> None:
        """Send what is left."""
        from mlflow.exceptions import MlflowException

        self._send()
        try:
            if self._last is not None:
                self._last.wait()  # one after the other: the last is sent when all are
            self._client.set_terminated(self.number, "FINISHED" if finished else "KILLED")
        except MlflowException as error:
            self._warn(f"warning: LOG.MLFLOW: figures were not sent: {error}")

    def _send(self) -> None:
        from mlflow.entities import Metric

        while self._waiting:
            part, self._waiting = self._waiting[: 10 * _BATCH], self._waiting[10 * _BATCH :]
            # In a thread of MLflow's: a server that does not answer shall not hold the training up.
            self._last = self._client.log_batch(
                self.number, metrics=[Metric(*figure) for figure in part], synchronous=False
            )
        self._sent = self._clock()


def open_trackers(run: RunIdentity, folder: Path, warn: Callable[[str], None]) -> list[Tracker]:
    """The trackers that the settings of a run ask for.

    Args:
        run: the run.
        folder: its folder, where numbers of an earlier start are found.
        warn: told of figures that could not be sent.

    Raises:
        RunError: if a tracker cannot begin.
    """
    log = run.settings.LOG
    known: dict[str, Any] = read_json(folder / NUMBERS) if (folder / NUMBERS).is_file() else {}
    found: list[Tracker] = []
    numbers = dict(known)
    if log.WANDB is not None:
        wandb = Wandb(log.WANDB, run, folder, known.get("wandb"))
        numbers["wandb"] = wandb.number
        found.append(wandb)
    if log.MLFLOW is not None:
        mlflow = Mlflow(log.MLFLOW, run, known.get("mlflow"), warn)
        numbers["mlflow"] = mlflow.number
        found.append(mlflow)
    if numbers != known:
        write_json(folder / NUMBERS, numbers)
    return found
