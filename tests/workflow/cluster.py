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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.helpers.concurrency import free_port

DAEMONS = ("slurmctld", "slurmd")
PROGRAMS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
PATIENCE_S = 800.0
DEATH_S = 10
"""Seconds without a word from a node, after which the controller takes it for dead."""

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/%n
SlurmdTimeout={death}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
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
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
    "CPUs=8 RealMemory=32000 Gres=gpu:2\n"
)


@dataclass
class Cluster:
    """A running cluster.

    Attributes:
        folder: of configuration, state and logs.
        nodes: names of its nodes.
    """

    folder: Path
    nodes: tuple[str, ...]
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's programs speak to this cluster."""
        path = os.pathsep.join([str(self.folder / "bin"), *os.get_exec_path()])
        return {"PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf")}

    @property
    def running(self) -> set[str]:
        """Names of the daemons that run."""
        return set(self._daemons)

    def call(self, *command: str) -> str:
        """Run one of Slurm's programs; returns what it prints."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    def job(self, number: str) -> str:
        """The controller's record of a job, also of one that has ended."""
        return self.call("scontrol", "show", "job", number)

    def jobs(self, *states: str) -> list[str]:
        """Numbers of the jobs in these states (all states without any), the oldest first."""
        chosen = ",".join(states) or "all"
        return self.call("squeue", "-h", "-S", "i", "-t", chosen, "-o", "%i").split()

    def start_controller(self, *, empty: bool = False) -> None:
        """Start the controller and wait until it answers.

        Args:
            empty: whether it forgets all jobs.
        """
        self._start("slurmctld", "slurmctld", "-D", *["-c"] * empty)
        self._wait(lambda: "is UP" in self.call("scontrol", "ping"), "the controller")

    def stop_controller(self) -> None:
        """Stop the controller, which saves its state; jobs go on."""
        self._stop("slurmctld")

    def start_node(self, name: str) -> None:
        """Start a node and wait until it takes jobs."""
        (self.folder / name).mkdir(exist_ok=True)
        self._start(name, "slurmd", "-D", "-N", name)
        self._wait(lambda: self._state(name) in ("idle", "mixed", "allocated"), f"node {name}")

    def kill_node(self, name: str) -> None:
        """End a node as a loss of power would, with all that runs on it, and wait for its death."""
        self._daemons[name].kill()
        self._daemons.pop(name).wait()
        for step in _steps(self.folder / f"{name}.log"):
            with contextlib.suppress(psutil.NoSuchProcess):
                step.suspend()  # it starts nothing and tells nothing while its jobs are killed
                for process in [*step.children(recursive=True), step]:
                    process.kill()
        self._wait(lambda: self._state(name).startswith("down"), f"the end of {name}")

    def _state(self, name: str) -> str:
        return self.call("sinfo", "-h", "-n", name, "-o", "%T").strip()

    def _start(self, name: str, *command: str) -> None:
        self._daemons[name] = subprocess.Popen(
            command,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _stop(self, name: str) -> None:
        daemon = self._daemons.pop(name)
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            ended = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
            if ended:
                break
            with contextlib.suppress(subprocess.CalledProcessError):
                if happened():
                    return
            time.sleep(0.1)
        logs = "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))
        raise AssertionError(f"waited in vain for {what}:\n{logs}")

    def end_jobs(self) -> None:
        """End all jobs."""
        while jobs := self.call("squeue", "-h", "-o", "%i").split():
            # They may end by themselves meanwhile.
            with contextlib.suppress(subprocess.CalledProcessError):
                self.call("scancel", "--signal=KILL", "--full", *jobs)
                self.call("scancel", *jobs)
            time.sleep(0.2)

    def stop(self) -> None:
        """End all jobs, then the daemons."""
        with contextlib.suppress(subprocess.CalledProcessError):  # the controller may be down
            self.end_jobs()
        steps = _steps(*(self.folder / f"{node}.log" for node in self.nodes))
        for name in reversed(list(self._daemons)):
            self._stop(name)
        _, left = psutil.wait_procs(steps, timeout=5)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


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
def start_cluster() -> Iterator[Cluster]:
    """Start a cluster of two nodes that claim eight CPUs and two GPUs each; it ends with the block.

    The GPUs are character devices that only look like some.
    """
    with contextlib.ExitStack() as stack:
        # Paths of sockets are limited to about a hundred characters.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = Cluster(folder, ("n0", "n1"))
        _configure(cluster, [stack.enter_context(free_port()) for _ in range(3)])
        stack.callback(cluster.stop)
        cluster.start_controller(empty=True)
        for name in cluster.nodes:
            cluster.start_node(name)
        yield cluster


def _configure(cluster: Cluster, ports: list[int]) -> None:
    """Write all configuration."""
    folder, host = cluster.folder, socket.gethostname().split(".")[0]
    port, *others = ports
    text = CONFIGURATION.format(host=host, port=port, folder=folder, death=DEATH_S)
    for name, node_port in zip(cluster.nodes, others, strict=True):
        text += NODE.format(name=name, host=host, port=node_port)
    (folder / "state").mkdir()
    (folder / "slurm.conf").write_text(text)
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    # Slurm counts devices only where there is a file for each.
    for number in range(2):
        _make_device(folder / f"gpu{number}")
    (folder / "gres.conf").write_text(f"NodeName=n[0-1] Name=gpu File={folder}/gpu[0-1]\n")
    (folder / "bin").mkdir()
    for name in PROGRAMS:
        program = folder / "bin" / name
        program.write_text(
            f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which(name)} "$@"\n'
        )
        program.chmod(0o755)


def _make_device(path: Path) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 3))


def _steps(*logs: Path) -> list[psutil.Process]:
    """The processes that watch over job steps: they are no one's children and outlive the nodes.

    Args:
        logs: of their nodes. They overwrite their environment, but write to these.
    """
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if process.name() == "slurmstepd":
                files = {Path(file.path) for file in process.open_files()}
                if files.intersection(logs):
                    processes.append(process)
    return processes
