"""Which GPUs a run takes: locks are real, only what the driver lists is given."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading

import pytest

from vrtspike.errors import RunError
from vrtspike.launching import gpus
from vrtspike.launching.gpu_locks import choosing
from vrtspike.launching.gpus import require_gpus, take_gpus, usable_gpus
from vrtspike.monitoring.nvml import Gpu

GIB = 2**30
HOLD = "import sys; sys.stdin.read()"


def gpu(uuid: str, index: int, free: float = 40, **more: bool) -> Gpu:
    return Gpu(uuid, index, "A100", 40 * GIB, int(free * GIB), **more)


GPUS = [gpu("GPU-a", 0), gpu("GPU-b", 1), gpu("GPU-c", 2)]
PARTS = [gpu("MIG-a", 0, is_part=True), gpu("MIG-b", 0, is_part=True)]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of three GPUs; takes GPUs on it, without patience unless it is given."""
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURMD_NODENAME", "PBS_JOBID"):
        monkeypatch.delenv(name, raising=False)

    def take(wanted, installed=GPUS, patience_s=0, **options):
        look = installed if callable(installed) else lambda: installed
        return take_gpus(wanted, look=look, folder=tmp_path, patience_s=patience_s, **options)

    return take


def names(installed, visible):
    return [gpu.uuid for gpu in usable_gpus(installed, visible)]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["GPU-a", "GPU-b", "GPU-c"]),
        ("2,0", ["GPU-c", "GPU-a"]),
        ("GPU-b", ["GPU-b"]),
        (" GPU-b , 0", ["GPU-b", "GPU-a"]),
        ("", []),
        # As CUDA reads it: what follows a name that means nothing is not seen.
        ("0,7,1", ["GPU-a"]),
        ("1,-1,0", ["GPU-b"]),
        ("0,GPU-x,1", ["GPU-a"]),
        # One device by two names is one.
        ("0,GPU-a,1", ["GPU-a", "GPU-b"]),
        # A beginning that several have means none.
        ("GPU-", []),
    ],
)
def test_visible_devices_are_indices_or_beginnings_of_names(visible, expected):
    assert names(GPUS, visible) == expected


def test_parts_of_a_divided_gpu_are_named_too():
    assert names([*PARTS, GPUS[1]], "MIG-b") == ["MIG-b"]
    assert names([*PARTS, GPUS[1]], "0,1") == ["MIG-a", "GPU-b"]
    assert names(GPUS, "MIG-GPU-a/1/0") == ["MIG-GPU-a/1/0"]


def test_without_the_drivers_library_names_are_taken_as_a_batch_system_gives_them():
    assert names([], "1,GPU-q") == ["1", "GPU-q"]
    assert names([], None) == names([], "") == names([], "-1") == []


def test_runs_get_different_devices_and_give_them_back(machine):
    with machine(1) as first, machine(2) as second:
        assert first.names == ("GPU-a",)
        assert second.names == ("GPU-b", "GPU-c")
        with pytest.raises(RunError, match="too few of the 3 GPUs are free for 1"), machine(1):
            pass
    with machine("auto") as third:
        assert third.names == ("GPU-a", "GPU-b", "GPU-c")


def test_one_device_by_two_names_has_one_lock(machine, monkeypatch):
    with machine(1):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a")
        with pytest.raises(RunError, match="GPU 0 is held by"), machine(1):
            pass


def test_auto_takes_what_is_free_or_the_cpu(machine):
    with machine(2), machine("auto") as rest:
        assert rest.names == ("GPU-c",)
    with machine("auto", most=2) as some, machine("auto", most=2) as rest:
        assert (some.names, rest.names) == (("GPU-a", "GPU-b"), ("GPU-c",))
    with machine("auto", installed=[]) as none:
        assert none.names == ()
    with machine(0) as cpu:
        assert cpu.names == ()


def test_a_run_that_is_continued_takes_as_many_as_share_its_batches(machine):
    four = [*GPUS, gpu("GPU-d", 3)]
    with machine("auto", installed=four, dividing=6) as some:
        assert some.names == ("GPU-a", "GPU-b", "GPU-c")
        # What it does not use is left to others.
        with machine("auto", installed=four, dividing=6) as rest:
            assert rest.names == ("GPU-d",)
    with machine("auto", installed=four, dividing=7) as one:
        assert one.names == ("GPU-a",)
    # A number that is asked for is taken; training says what is wrong with it.
    with machine(4, installed=four, dividing=6) as asked:
        assert len(asked.names) == 4


def test_the_emptiest_gpus_come_first_and_those_of_others_not_at_all(machine):
    installed = [gpu("GPU-a", 0, 36), gpu("GPU-b", 1, 39.9), gpu("GPU-c", 2, 31.9)]
    with machine(1, installed=installed) as one:
        assert one.names == ("GPU-b",)
    with machine("auto", installed=installed) as free:
        assert free.names == ("GPU-b", "GPU-a")
    with pytest.raises(RunError, match=r"GPU 2: 8\.1 of 40\.0 GiB are in use"):
        machine(3, installed=installed).__enter__()


def test_less_than_a_gib_decides_nothing(machine):
    with machine(1, installed=[gpu("GPU-a", 0, 39.2), gpu("GPU-b", 1, 39.7)]) as one:
        assert one.names == ("GPU-a",)


def test_who_names_a_device_means_it(machine, monkeypatch):
    installed = [gpu("GPU-a", 0, 1), gpu("GPU-b", 1)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with machine(1, installed=installed) as one:
        assert one.names == ("GPU-a",)


def test_what_is_in_the_way_is_named(machine):
    with machine(3), pytest.raises(RunError) as caught, machine(1):
        pass
    # The process that holds them is this one.
    for number in range(3):
        assert f"GPU {number} is held by process {os.getpid()} of " in str(caught.value)
    installed = [gpu("GPU-a", 0, 10)]
    with pytest.raises(RunError, match="CUDA_VISIBLE_DEVICES=GPU-a takes it all the same"):
        machine(1, installed=installed).__enter__()


def test_more_than_exist_is_a_clear_error_at_once(machine):
    with (
        pytest.raises(RunError, match=r"4 GPUs are asked for, but 3 can be used"),
        machine(4, patience_s=None),
    ):
        pass
    with pytest.raises(RunError, match=r"1 GPUs are asked for, but 0"), machine(1, installed=[]):
        pass


def test_of_a_divided_gpu_a_run_takes_one_part(machine):
    with machine("auto", installed=PARTS) as one, machine(1, installed=PARTS) as other:
        assert (one.names, other.names) == (("MIG-a",), ("MIG-b",))
    with pytest.raises(RunError, match="divided GPU"), machine(2, installed=PARTS):
        pass
    # Whole ones go before parts where a run may have several.
    with machine("auto", installed=[*PARTS, *GPUS[1:]]) as whole:
        assert whole.names == ("GPU-b", "GPU-c")
    assert [gpu.uuid for gpu in require_gpus(2, [*PARTS, *GPUS[1:]])] == ["GPU-b", "GPU-c"]


def test_two_runs_in_one_job_share_none_of_its_devices(machine, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    with machine(1) as first, machine("auto") as second:
        assert (first.names, second.names) == (("GPU-b",), ("GPU-c",))
    with pytest.raises(RunError, match="3 GPUs are asked for, but 2"), machine(3):
        pass


def test_a_number_without_a_driver_is_another_device_in_each_job_and_node(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURMD_NODENAME", "n0")
    with machine(1, installed=[]) as first:
        assert first.names == ("0",)
        with pytest.raises(RunError, match="are free"), machine(1, installed=[]):
            pass
        for variable, value in (("SLURM_JOB_ID", "8"), ("SLURMD_NODENAME", "n1")):
            with monkeypatch.context() as patch:
                patch.setenv(variable, value)
                with machine(1, installed=[]) as other:
                    assert other.names == ("0",)


@contextlib.contextmanager
def child(locks):
    """A process that inherits locks."""
    held = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, pass_fds=locks)
    try:
        yield held
    finally:
        held.communicate()


def test_a_child_that_inherits_the_lock_keeps_the_device(machine):
    with contextlib.ExitStack() as stack:
        with machine(3) as taken:
            stack.enter_context(child(taken.locks))
        with pytest.raises(RunError, match="are free"), machine(1):
            pass
    with machine(1) as free:
        assert free.names == ("GPU-a",)


def test_a_run_waits_and_says_for_what_until_a_device_is_free(machine):
    said: list[str] = []
    freed = threading.Event()
    busy = [gpu("GPU-a", 0, 10)]

    def look():
        return [gpu("GPU-a", 0)] if freed.is_set() else busy

    def tell(text):
        said.append(text)
        freed.set()

    with machine(1, installed=look, patience_s=None, tell=tell) as mine:
        assert mine.names == ("GPU-a",)
    first, last = said
    assert re.match(r"waiting: too few of the 1 GPUs are free for 1: GPU 0: 30\.0 of 40\.0", first)
    assert last == "free now: GPU-a"


def test_who_waits_for_long_says_so_again(machine, monkeypatch):
    monkeypatch.setattr(gpus, "_QUIET_S", 0.0)
    monkeypatch.setattr(gpus, "_REMIND_S", 0.0)
    said: list[str] = []

    def look():
        return [gpu("GPU-a", 0, 40 if len(said) > 1 else 10)]

    with machine(1, installed=look, patience_s=None, tell=said.append):
        pass
    assert [text.split(":")[0] for text in said] == ["waiting", "waiting", "free now"]


def test_while_another_run_chooses_nothing_is_taken(machine, tmp_path):
    with choosing(tmp_path), pytest.raises(RunError, match=r"process \d+ of .* is choosing"):
        machine(1).__enter__()
    with machine(3) as all_of_them:
        assert len(all_of_them.names) == 3


def test_two_runs_that_need_both_devices_come_one_after_the_other(machine):
    """Each would wait for ever for the half that the other holds."""
    order: list[str] = []

    def run(name):
        with machine(2, installed=GPUS[:2], patience_s=None, tell=lambda text: None):
            order.extend([name, name])

    threads = [threading.Thread(target=run, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(order[::2]) == ["x", "y", "z"]
    assert order[::2] == order[1::2]
