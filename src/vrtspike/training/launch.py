"""Start a training run: settings, folder, devices, ``torchrun``, and the published result.

Nothing here needs PyTorch: the launcher is there at once and leaves the work to the processes it
starts.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import psutil

from vrtspike.config.loading import check_files
from vrtspike.config.workflow import load_workflow
from vrtspike.errors import ConfigError, RunError
from vrtspike.provenance import code_digest
from vrtspike.training.devices import Devices, take_gpus
from vrtspike.training.publish import publish
from vrtspike.training.run_folder import is_finished, resolve_run
from vrtspike.training.signals import EXIT_INTERRUPTED, stop_with_parent

STATUS_FILE = "VRTSPIKE_STATUS_FILE"
"""Environment variable: where the first training process leaves its exit status."""

OBSERVERS = (
    "vrtspike.monitoring",
    "vrtspike.data.voxels.voxelize",
    "vrtspike.data.voxels.voxelize_packed",
)
"""Code that is left out of a run's fingerprint: logs change no result, and what voxelisation gives
is part of the data set's digest, so that code with equal voxels trains nothing anew."""
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


@dataclass(frozen=True)
class Request:
    """What to train and where.

    Attributes:
        preset: name of the preset.
        configfiles: workflow configuration files, later ones win.
        config: values laid over them.
        dataset: the dataset manifest.
        output: folder of the published result.
        runs: folder of all runs; None takes RUNS of the configuration.
        gpus: number of GPUs; None takes GPUS of the configuration.
        code: digest of the training code; None computes it from ``program``.
        program: the training program.
    """

    preset: str
    configfiles: tuple[str, ...]
    config: dict[str, Any]
    dataset: Path
    output: Path
    program: Path
    runs: Path | None = None
    gpus: int | Literal["auto"] | None = None
    code: str | None = None


def launch(request: Request) -> int:
    """Train, or continue, and publish the result.

    Returns:
        the exit status: 0 when the result is published, ``EXIT_INTERRUPTED`` when the run was
        stopped and saved, ``EXIT_USER_ERROR`` when the trainer has explained what is wrong, 1 when
        it failed.

    Raises:
        ConfigError: if the configuration is wrong.
        RunError: if the devices or the data are not there.
    """
    plan = load_workflow(request.configfiles, request.config)
    if request.preset not in plan.presets:
        known = ", ".join(plan.presets)
        raise RunError(f"no preset {request.preset!r}; there are: {known}")
    settings = plan.presets[request.preset]
    check_files(settings)
    code = request.code or code_digest(request.program, neutral=OBSERVERS)
    run = resolve_run(request.preset, settings, request.dataset, code)
    folder = (request.runs or Path(plan.settings.RUNS)) / run.name / run.fingerprint
    run.write(folder)
    print(f"run folder: {folder}", flush=True)
    if is_finished(folder):
        publish(folder, request.output)
        print(f"result: {request.output} (the run was finished before)", flush=True)
        return 0
    with take_gpus(plan.settings.GPUS if request.gpus is None else request.gpus) as devices:
        status = train(folder, devices, request.program, plan.settings.NODES)
    if status == 0:
        publish(folder, request.output)
        print(f"result: {request.output}", flush=True)
    return status


def train(folder: Path, devices: Devices, program: Path, nodes: int = 1) -> int:
    """Run the training program under ``torchrun``, one process per GPU; returns its status.

    Args:
        folder: of the run.
        devices: of this node; the others must have as many.
        program: the training program.
        nodes: machines of the run; more than one needs a Slurm allocation of that size.

    Raises:
        ConfigError: if there is no such allocation.
    """
    ranks = max(1, len(devices.names))
    command = [
        *_torchrun(nodes, os.environ),
        *("--nproc-per-node", str(ranks), str(program), "--run-dir", str(folder)),
    ]
    # The first process may run on another node, which shares the run's folder with this one.
    shared = folder if nodes > 1 else None
    with tempfile.TemporaryDirectory(prefix=".vrtspike-", dir=shared) as temporary:
        status_file = Path(temporary) / "status"
        environment = training_environment(devices, ranks, status_file)
        code, was_stopped = _run(command, environment, devices.locks)
        if status_file.is_file():
            return int(status_file.read_text(encoding="utf-8"))
    if was_stopped:
        print("stopped before training had begun; start again to continue", flush=True)
        return EXIT_INTERRUPTED
    print(f"training failed (torchrun ended with {code}); the run stays in {folder}", flush=True)
    return 1


def _torchrun(nodes: int, environment: Mapping[str, str]) -> list[str]:
    """The command that starts the processes of this machine, or of all nodes of a Slurm job."""
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    if nodes == 1:
        return [*torchrun, "--standalone"]
    job, allocated = environment.get("SLURM_JOB_ID"), environment.get("SLURM_JOB_NUM_NODES", "1")
    if job is None or int(allocated) < nodes:
        found = "this is no Slurm job" if job is None else f"the Slurm job has {allocated}"
        raise ConfigError(
            f"NODES is {nodes}, but {found}. Set nodes: {nodes} among the resources of the rule "
            "train in the profile (docs/clusters.md), or start torchrun on every node yourself "
            "with --nnodes and scripts/train.py --run-dir"
        )
    port = 20000 + int(job) % 20000
    return [
        *("srun", "--overlap", "--nodes", str(nodes), "--ntasks", str(nodes)),
        *("--ntasks-per-node", "1"),
        *(*torchrun, "--nnodes", str(nodes), "--rdzv-backend", "c10d", "--rdzv-id", job),
        *("--rdzv-endpoint", f"{socket.gethostname()}:{port}"),
        *("--signals-to-handle", "SIGTERM,SIGINT,SIGUSR1"),
    ]


def training_environment(devices: Devices, ranks: int, status_file: Path) -> dict[str, str]:
    """The environment of the training processes."""
    # Snakemake sets the variable to all threads of the job; every process would start as many.
    available = int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))
    available = min(available, len(os.sched_getaffinity(0)))
    return {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": ",".join(devices.names),
        "OMP_NUM_THREADS": str(max(1, available // ranks)),
        STATUS_FILE: str(status_file),
        # With a shared store the processes of a restart (--max-restarts) wait for their
        # predecessors.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def process_number() -> int:
    """The rank of this process among those of the run."""
    return int(os.environ.get("RANK", "0"))


def report_status(status: int) -> int:
    """Tell the launcher how training ended; returns the exit status of this process.

    ``torchrun`` takes every status but 0 for a crash, prints a page about it and ends with 1. Under
    the launcher an ending that all processes share is therefore told through a file.
    """
    path = os.environ.get(STATUS_FILE)
    if path is None:
        return status
    if process_number() == 0:
        Path(path).write_text(str(status), encoding="utf-8")
    shared = status in (0, EXIT_INTERRUPTED) or os.environ.get("WORLD_SIZE", "1") == "1"
    return 0 if shared else status


def _run(
    command: Sequence[str], environment: dict[str, str], keep_open: Sequence[int]
) -> tuple[int, bool]:
    """Run a program to its end; returns its status and whether it was asked to stop meanwhile."""
    # In a session of its own: what a terminal sends to all, it would get a second time from here.
    process = subprocess.Popen(
        command,
        env=environment,
        pass_fds=keep_open,
        preexec_fn=stop_with_parent,
        start_new_session=True,
    )
    asked: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        _ask_to_stop(process.pid)

    previous = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        return process.wait(), bool(asked)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _ask_to_stop(torchrun: int) -> None:
    """Send SIGTERM to the training processes, or to ``torchrun`` before it has started them.

    ``torchrun`` itself would pass it on, but kill what has not ended after 30 seconds, and take the
    stop for a crash. On several nodes there is no other way: ``srun`` hands SIGUSR1 to the
    ``torchrun`` of each (at SIGTERM it would end them).
    """
    try:
        agent = psutil.Process(torchrun)
        if agent.name() == "srun":
            agent.send_signal(signal.SIGUSR1)
            return
        for process in agent.children() or [agent]:
            process.send_signal(signal.SIGTERM)
    except psutil.NoSuchProcess:
        # It has just ended by itself.
        return
