from __future__ import annotations

import pytest

from vrtspike.commands import hardware
from vrtspike.commands.hardware import GpuKind, find_gpus, measure_speed, named_gpu
from vrtspike.errors import RunError
from vrtspike.system.surroundings import nearest_existing

GPUS = [
    {"uuid": f"GPU-{n}", "total": total, "used": 1, "name": f"NVIDIA A100 {n}"}
    for n, total in enumerate((80, 40, 24))
]


@pytest.mark.parametrize(
    ("gpus", "visible", "expected"),
    [
        (GPUS, None, GpuKind("NVIDIA A100 0", 3, 24.0, "570.1")),
        (GPUS, "1,0", GpuKind("NVIDIA A100 1", 2, 40.0, "570.1")),
        (GPUS, "", None),
        (None, None, None),
        # Names that a batch system gives have no size.
        (None, "0", None),
    ],
)
def test_the_smallest_of_the_gpus_that_can_be_used_counts(
    install_gpus, monkeypatch, gpus, visible, expected
):
    if gpus is not None:
        install_gpus(*gpus)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert find_gpus() == expected


def test_the_nearest_folder_that_exists(tmp_path):
    assert nearest_existing(tmp_path) == tmp_path
    assert nearest_existing(tmp_path / "a" / "b") == tmp_path
    # The system refuses to look for it, as it does below a folder of another user.
    assert nearest_existing(tmp_path / ("x" * 300) / "b") == tmp_path


def test_gpus_of_another_machine_are_named():
    assert named_gpu("h200", 2) == GpuKind("H200", 2, 141, "", 989.0)
    with pytest.raises(RunError, match=r"--gpu T4: expected .*A6000"):
        named_gpu("T4", 1)


def test_the_speed_of_this_machine_is_measured():
    # From an old laptop on which others work to a large server.
    assert 0.0002 < measure_speed(None).tflops < 20


def test_a_gpu_of_this_machine_is_measured(monkeypatch):
    unknown = GpuKind("NVIDIA A10", 1, 24)
    monkeypatch.setattr(hardware, "measure_peak", lambda device, dtype: 75e12)
    # A product reaches three quarters of the data sheet, a training step a tenth.
    assert measure_speed(unknown).tflops == pytest.approx(10)

    def broken(*_: object) -> float:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(hardware, "measure_peak", broken)
    with pytest.raises(RunError, match=r"A10 does not compute \(no kernel image\); see vrtspike"):
        measure_speed(unknown)
