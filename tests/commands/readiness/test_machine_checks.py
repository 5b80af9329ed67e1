"""Checks of `vrtspike doctor` on packages, GPU, compiler, shared memory and programs."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from vrtspike.commands.readiness import machine_checks
from vrtspike.commands.readiness.check import Check
from vrtspike.commands.readiness.checks import all_checks
from vrtspike.commands.readiness.machine_checks import (
    compiler_check,
    multiplies_exactly,
    packages_check,
    shared_memory_check,
    torch_checks,
    which_check,
)
from vrtspike.deblurring.advice.hardware import MachineGpus
from vrtspike.monitoring.process_memory import SystemMemory


def test_a_missing_and_an_old_package_are_named(monkeypatch):
    assert packages_check() == Check("packages", "ok", "all installed")
    lines = ["numpy>=99", "nosuchpackage>=1", "wandb; extra == 'tracking'", "pandas>=1"]
    monkeypatch.setattr(machine_checks.metadata, "requires", lambda name: lines)
    check = packages_check()
    assert check.state == "broken"
    assert "numpy 2" in check.detail
    assert ">=99 is needed; nosuchpackage is missing" in check.detail
    assert "wandb" not in check.detail


OLD = "The NVIDIA driver on your system is too old"


@pytest.mark.parametrize(
    ("is_right", "state", "detail", "cure"),
    [
        (True, "ok", "", ""),
        (False, "broken", "", "the GPU computes wrong products"),
        (None, "broken", f"; {OLD}", "docs/install.md"),
    ],
)
def test_a_gpu_that_computes_wrongly_or_not_at_all_is_broken(
    monkeypatch, is_right, state, detail, cure
):
    def stand_in(device):
        if is_right is None:
            raise RuntimeError(f"{OLD}\nUpdate it")
        return is_right

    monkeypatch.setattr(machine_checks, "multiplies_exactly", stand_in)
    monkeypatch.setattr(machine_checks, "driver_version", lambda: "535.104.05")
    _, check = torch_checks(MachineGpus("A", 1, 24.0))
    assert (check.state, check.detail) == (state, f"1 x A, 24 GiB, driver 535.104.05{detail}")
    assert check.cure.startswith(cure)
    assert [check.state for check in torch_checks(None)] == ["ok", "note"]


def test_a_product_of_matrices_is_computed():
    assert multiplies_exactly("cpu")
    with pytest.raises(RuntimeError, match="meta"):
        multiplies_exactly("meta")  # a device without values


def test_a_compiler_is_run(tmp_path, monkeypatch):
    if shutil.which("cc") or shutil.which("gcc"):
        monkeypatch.delenv("CC", raising=False)
        assert compiler_check().state == "ok"
    broken = tmp_path / "mycc"
    broken.write_text("#!/bin/sh\necho 'check.c:1: error: no headers' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    check = compiler_check()
    assert check.state == "broken"
    assert "no headers" in check.detail
    assert "python3-dev" in check.cure
    monkeypatch.setenv("CC", "nosuchcompiler")
    assert compiler_check().state == "broken"


def test_too_little_shared_memory(monkeypatch):
    too_small = SystemMemory(8000, 6000, 2000, 0, 64, 0)
    monkeypatch.setattr(machine_checks, "system_memory", lambda: too_small)
    shared = shared_memory_check()
    assert shared.state == "broken"
    assert "/dev/shm has 64 MB" in shared.detail
    assert "--shm-size" in shared.cure
    enough = replace(too_small, shared_total=2048)
    monkeypatch.setattr(machine_checks, "system_memory", lambda: enough)
    assert shared_memory_check() == Check("shared memory", "ok", "2.0 GiB")


def test_a_missing_program_which_is_reported(tmp_path, monkeypatch):
    assert list(which_check()) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = which_check()
    assert check.state == "broken"
    assert "debianutils" in check.cure
    monkeypatch.chdir(tmp_path)
    assert check in list(all_checks([], []))
    # Only the Slurm plugin calls it.
    monkeypatch.setattr(machine_checks.importlib.util, "find_spec", lambda name: None)
    assert list(which_check()) == []


def test_a_python_without_vrtspike_is_reported(monkeypatch):
    def missing(name):
        raise machine_checks.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(machine_checks.metadata, "requires", missing)
    assert packages_check().detail == "vrtspike is not installed"
