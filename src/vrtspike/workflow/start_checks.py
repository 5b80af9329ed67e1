"""Checks before the first job: devices, and other Snakemake processes with the same files.

Each Snakemake lists its due files in a locked file. Another one whose plan has some of these files
waits until the first one has ended, and plans again. Snakemake's own lock would reject any second
Snakemake, and would have to be removed by hand after a crash.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Literal

from vrtspike.io.files import file_stamp, write_errors_name
from vrtspike.io.locks import describe_process, lock_file, locked
from vrtspike.launching.machines import DeviceRequest, require_devices
from vrtspike.system.errors import RunError, is_disk_full, list_faults
from vrtspike.system.termination import (
    SNAKEMAKE_PROCESS_VARIABLE,
    exit_with_snakemake,
    interrupt_once,
    process_identity,
)
from vrtspike.workflow.snakemake_internals import SnakemakeInternals

_SUFFIX = ".plan"
_CLOCK_SKEW_S = 1.0
"""Tolerated difference of the clocks of two machines."""


def prepare_process(snakemake: SnakemakeInternals) -> None:
    """Set up this process and the environment of its jobs, before planning."""
    # Jobs use the Python that runs Snakemake, even if its environment is not activated.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
    snakemake.make_termination_safe()
    snakemake.keep_results_of_failed_jobs()
    if snakemake.is_main:
        # A Snakemake within a rule ends with the Snakemake that runs it.
        exit_with_snakemake()
    os.environ[SNAKEMAKE_PROCESS_VARIABLE] = process_identity() or ""


def trigger_warnings(disabled: Collection[str]) -> list[str]:
    """Return a message on kinds of changes that Snakemake does not check for; empty without any.

    Args:
        disabled: kinds of changes, in the terms of ``rerun-triggers``.
    """
    if not disabled:
        return []
    return [
        f"rerun-triggers (command line or profile) leaves out {', '.join(disabled)}: changed "
        'settings, data or code may not be noticed, and "nothing to be done" may be wrong; remove '
        "that option"
    ]


def begin_run(
    snakemake: SnakemakeInternals, results: Path, gpus: int | Literal["auto"], nodes: int
) -> None:
    """Wait for other Snakemake processes that write the same files, then restart to plan again.

    Args:
        snakemake: interface to Snakemake, which lists the due jobs.
        results: folder of all results.
        gpus: GPUS of the configuration.
        nodes: NODES of the configuration.

    Raises:
        UserError: if devices are missing, results cannot be written, or an input file has a date
            in the future.
    """
    due = snakemake.due_jobs()
    if snakemake.runs_locally and any(job.rule == "train" for job in due):
        require_devices(DeviceRequest(gpus, nodes))
    # Snakemake's handler would have no effect before its scheduler runs.
    handler = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    refuse_future_dates(snakemake.files())
    files = [file for job in due for file in job.outputs]
    try:
        waited = reserve_files(results / "logs/snakemakes", files, partial(print, file=sys.stderr))
    except OSError as error:
        if not is_disk_full(error):
            raise RunError(
                f"{error.filename}: {error.strerror}; fix that or its permissions, or set RESULTS "
                "(config/config.yaml) to a folder that can be written, and run again"
            ) from error
        waited = False  # the job that cannot write reports it
    if waited:
        sys.stdout.flush()
        os.execv(sys.executable, sys.orig_argv)
    signal.signal(signal.SIGTERM, handler)
    interrupt_once()


def refuse_future_dates(files: Iterable[str]) -> None:
    """Reject modification times in the future, from another machine's clock.

    Snakemake removes an output that is older than its input, such as a finished training.

    Args:
        files: files of all jobs of the plan; missing ones are ignored.

    Raises:
        RunError: naming the files, and the command that sets their dates to now.
    """
    latest_ns = (time.time() + _CLOCK_SKEW_S) * 1e9
    stamps = {file: file_stamp(file) for file in files}
    late = sorted(file for file, stamp in stamps.items() if stamp and stamp[2] > latest_ns)
    if late:
        title = "dated in the future, so that Snakemake would remove results made from them"
        # All files get one date, so that no input is newer than its output.
        advice = f"Set the clock right, or date them today: touch -c -d now {shlex.join(late)}"
        raise RunError(list_faults(title, late, advice))


def reserve_files(folder: Path, files: Collection[str], show: Callable[[str], None]) -> bool:
    """Reserve the files that this process makes, until it ends, or wait for another process.

    Args:
        folder: folder of the lists of files, shared by all Snakemake processes with these results.
        files: paths of the files.
        show: function called with a message before waiting.

    Returns:
        true if it has waited. Nothing is then reserved, because the files may exist by now.

    Raises:
        OSError: if the folder cannot be written; it names the folder, or a file in it.
    """
    paths = frozenset(map(os.path.abspath, files))
    # Without file locks, nothing can be reserved.
    with write_errors_name(folder), contextlib.suppress(RunError):
        with locked(folder / "lock"):
            lists = sorted(folder.glob(f"*{_SUFFIX}"))
            messages = {path: _conflict(path, paths) for path in lists}
            conflicts = {path: text for path, text in messages.items() if text is not None}
            if not conflicts:
                _write_plan(folder, paths)
                return False
        path, text = next(iter(conflicts.items()))
        show(text)
        # The other process may have ended meanwhile.
        with contextlib.suppress(FileNotFoundError), path.open("r+") as stream:
            lock_file(stream.fileno(), path, wait=True)
        return True
    return False


def _write_plan(folder: Path, files: Collection[str]) -> None:
    """List the files that this process makes, in a file that stays locked until it ends."""
    # Containers may have the same host name and process ID.
    path = folder / f"{secrets.token_hex(8)}{_SUFFIX}"
    # The umask decides who may read it: users may share a folder of results.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    lock_file(descriptor, path)
    # The descriptor stays open, and the file locked, until this process ends.
    os.write(descriptor, os.fsencode("\n".join([describe_process(), *sorted(files)])))
    atexit.register(path.unlink, missing_ok=True)


def _conflict(path: Path, files: frozenset[str]) -> str | None:
    """Return a message if the process of a list makes some of these files.

    A list whose process has ended is removed.
    """
    try:
        with path.open("rb+") as stream:
            if lock_file(stream.fileno(), path):
                path.unlink()
                return None
            process, *others = os.fsdecode(stream.read()).splitlines()
    except FileNotFoundError:  # its process has just ended
        return None
    except PermissionError:
        return (
            f"{path} lists the files that another user's snakemake makes, maybe files that are due "
            "here, too, and may not be opened here; wait until that snakemake has ended, or have "
            "that user allow the group to write (umask 002), and run again"
        )
    common = sorted(files.intersection(others))
    if not common:
        return None
    more = f" and {len(common) - 1} more" if len(common) > 1 else ""
    return (
        f"waiting for another snakemake ({process}), which makes "
        f"{os.path.relpath(common[0])}{more} of the files that are due here, "
        "too; Ctrl-C ends only this one"
    )
