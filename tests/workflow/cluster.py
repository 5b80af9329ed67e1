"""A Slurm cluster of several nodes on this machine, for the time of a test.

Its daemons run on loopback and keep everything in one folder. Slurm's programs look for their
configuration in ``SLURM_CONF``, which the job steps of Snakemake do not pass on; therefore each
program that a job may call stands in the cluster's ``bin`` folder with the variable set.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

DAEMONS = ("slurmctld", "slurmd")
PROGRAMS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo", "sacctmgr")
PATIENCE_S = 30.0

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
KillWait=5
GresTypes=gpu
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = (
    "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
    "CPUs=8 RealMemory=8000 Gres=gpu:{gpus}\n"
)


class NodesDownError(Exception):
    """Not all daemons of a cluster came up."""


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's programs speak to this cluster."""
        path = os.pathsep.join([str(self.folder / "bin"), *os.get_exec_path()])
        return {"PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *command: str) -> str:
        """Run one of Slurm's programs; returns what it prints."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    def job(self, number: str) -> str:
        """What the controller knows of a job, also of one that has ended."""
        return self.call("scontrol", "show", "job", number)


def missing() -> str | None:
    """Why there can be no cluster here; None if there can."""
    if any(shutil.which(name) is None for name in (*DAEMONS, *PROGRAMS)):
        return "needs Slurm (apt-get install slurm-wlm)"
    if os.getuid() != 0:
        return "needs root: Slurm's daemons start jobs for others"
    with tempfile.TemporaryDirectory() as folder:
        try:
            _make_device(Path(folder) / "gpu")
        except PermissionError:
            return "needs the right to make device files (CAP_MKNOD)"
    return None


@contextlib.contextmanager
def start_cluster(folder: Path, nodes: int = 2, gpus: int = 2) -> Iterator[Cluster]:
    """Start a cluster whose nodes claim eight CPUs and some GPUs each; it ends with the block.

    Args:
        folder: for configuration, state and logs; a short path (it becomes part of a socket's).
        nodes: how many.
        gpus: of each node; character devices that only look like some.
    """
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(_try_cluster(folder / "1", nodes, gpus))
        except NodesDownError:
            # Others may have taken a port between its choice and the daemon's start.
            cluster = stack.enter_context(_try_cluster(folder / "2", nodes, gpus))
        yield cluster


@contextlib.contextmanager
def _try_cluster(folder: Path, nodes: int, gpus: int) -> Iterator[Cluster]:
    cluster = Cluster(folder)
    _configure(folder, nodes, gpus)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        daemons.append(_daemon(cluster, "slurmctld", "-D", "-c"))
        for number in range(nodes):
            (folder / f"n{number}").mkdir()
            daemons.append(_daemon(cluster, "slurmd", "-D", "-N", f"n{number}"))
        _wait_for_nodes(cluster, nodes, daemons)
        yield cluster
    finally:
        _stop(cluster, daemons)


def _configure(folder: Path, nodes: int, gpus: int) -> None:
    host, ports = socket.gethostname().split(".")[0], _free_ports(nodes + 1)
    configuration = CONFIGURATION.format(host=host, port=ports[0], folder=folder)
    lines = [
        NODE.format(number=number, host=host, port=port, gpus=gpus)
        for number, port in enumerate(ports[1:])
    ]
    (folder / "state").mkdir(parents=True)
    (folder / "slurm.conf").write_text("".join([*configuration.splitlines(True), *lines]))
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    # Slurm counts devices only where there is a file for each.
    for number in range(gpus):
        _make_device(folder / f"gpu{number}")
    names = f"NodeName=n[0-{nodes - 1}] Name=gpu File={folder}/gpu[0-{gpus - 1}]\n"
    (folder / "gres.conf").write_text(names)
    (folder / "bin").mkdir()
    for name in PROGRAMS:
        program = folder / "bin" / name
        program.write_text(
            f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which(name)} "$@"\n'
        )
        program.chmod(0o755)


def _make_device(path: Path) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 3))


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _daemon(cluster: Cluster, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env={**os.environ, **cluster.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _wait_for_nodes(cluster: Cluster, nodes: int, daemons: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and all(daemon.poll() is None for daemon in daemons):
        with contextlib.suppress(subprocess.CalledProcessError):
            if cluster.call("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").count("\n") == nodes:
                return
        time.sleep(0.1)
    logs = "\n".join(path.read_text() for path in sorted(cluster.folder.glob("*.log")))
    raise NodesDownError(f"the nodes of the cluster did not come up:\n{logs}")


def _stop(cluster: Cluster, daemons: list[subprocess.Popen[bytes]]) -> None:
    """End all jobs, then the daemons."""
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.suppress(subprocess.CalledProcessError):
        while jobs := cluster.call("squeue", "-h", "-o", "%i").split():
            if time.monotonic() > deadline:
                break
            cluster.call("scancel", "--signal=KILL", "--full", *jobs)
            cluster.call("scancel", *jobs)
            time.sleep(0.2)
    steps = _steps(cluster)
    for daemon in reversed(daemons):
        daemon.terminate()
    started = [psutil.Process(daemon.pid) for daemon in daemons if daemon.poll() is None]
    _, left = psutil.wait_procs([*started, *steps], timeout=5)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    for daemon in daemons:
        daemon.wait()


def _steps(cluster: Cluster) -> list[psutil.Process]:
    """The processes that watch over job steps: they are no one's children and outlive the nodes."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if process.name() == "slurmstepd":
                # They overwrite their environment, but write to the log of their node.
                logs = [Path(file.path) for file in process.open_files()]
                if any(log.is_relative_to(cluster.folder) for log in logs):
                    found.append(process)
    return found
