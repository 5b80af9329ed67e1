from __future__ import annotations

from vrtspike.commands.hardware import GPUS as SHEETS
from vrtspike.commands.hardware import GpuKind, find_gpus
from vrtspike.system.surroundings import nearest_existing

GPUS = [
    {"uuid": f"GPU-{n}", "total": total, "used": 1, "name": f"NVIDIA A100 {n}"}
    for n, total in enumerate((80, 40, 24))
]


def test_the_smallest_of_the_gpus_that_can_be_used_counts(install_gpus, monkeypatch):
    install_gpus(*GPUS)
    known = SHEETS["A100"].tflops
    assert find_gpus() == GpuKind("NVIDIA A100 0", 3, 24.0, "570.1", known)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert find_gpus() == GpuKind("NVIDIA A100 1", 2, 40.0, "570.1", known)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert find_gpus() is None


def test_without_a_driver_there_is_no_gpu(install_gpus, monkeypatch):
    assert find_gpus() is None
    # Names that a batch system gives have no size.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert find_gpus() is None


def test_the_nearest_folder_that_exists(tmp_path):
    assert nearest_existing(tmp_path) == tmp_path
    assert nearest_existing(tmp_path / "a" / "b") == tmp_path
    # The system refuses to look for it, as it does below a folder of another user.
    assert nearest_existing(tmp_path / ("x" * 300) / "b") == tmp_path
