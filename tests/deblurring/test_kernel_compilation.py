"""What is compiled ahead is what launches ask for; all for an H100 that is not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from triton import knobs
from triton.backends.compiler import GPUTarget

from tests.deblurring import small_kernels
from vrtspike.deblurring import kernel_compilation
from vrtspike.deblurring.kernel_compilation import (
    KernelLaunch,
    compile_ahead,
    compiling_for,
    keep_cache_place,
    launch_of,
    not_compiled,
)
from vrtspike.deblurring.models.ops import deform_conv
from vrtspike.deblurring.models.ops.deform_conv import triton_deform
from vrtspike.deblurring.traced_step import trial_launches

CPU = torch.device("cpu")
H100 = GPUTarget("cuda", 90, 32)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Triton's cache, empty; kernels are compiled for an H100."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_compilation, "available_cpus", lambda: 2)
    with compiling_for(H100):
        forget()
        yield tmp_path
        forget()


def forget() -> None:
    """Have no kernel compiled in this process."""
    for kernel in (small_kernels.scale_kernel, small_kernels.broken_kernel):
        kernel.device_caches.clear()


def launch(kernel: Any = None, number: int = 5, offset: int = 0, **changes: Any) -> KernelLaunch:
    x = torch.zeros(64)
    arguments = {"x": x[offset:], "out": x, "number": number, "factor": 0.5, "BLOCK": 16}
    return launch_of(kernel or small_kernels.scale_kernel, {**arguments, "num_warps": 1, **changes})


def compiled(cache: Path) -> set[str]:
    return {path.name + path.parent.name for path in cache.glob("*/*.cubin")}


@pytest.mark.endurance
def test_launches_of_trials_find_what_was_compiled_ahead(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation, dtype = deform_conv.OPERATION, torch.bfloat16
    noted = trial_launches([operation], CPU, dtype)
    told: list[str] = []
    compile_ahead(noted, told.append)
    ahead = compiled(cache)
    assert told == [told[0]]
    assert told[0].startswith(f"compiling {len(ahead)} kernels, once for this GPU: about ")
    assert not_compiled(noted) == []

    # Now the trial itself, on tensors that have addresses; only the launch itself is left out.
    misses: list[str] = []
    asked: list[str] = []

    def listen(*, src: Any, cache_hit: bool, **_: Any) -> None:
        asked.append(src.name)
        if not cache_hit:
            misses.append(src.name)

    def launched(kernel: Any, grid: Any, *arguments: Any, **constants: Any) -> None:
        kernel.device_caches.clear()
        kernel.warmup(*arguments, grid=tuple(grid), **constants)

    monkeypatch.setattr(triton_deform, "launch", launched)
    monkeypatch.setattr(knobs.compilation, "listener", listen)
    operation.trial(CPU, dtype)
    assert set(asked) == {"forward_kernel", "backward_kernel"}
    assert misses == []
    assert compiled(cache) == ahead


def test_a_kernel_is_compiled_once_for_arguments_that_triton_takes_for_alike(cache: Path) -> None:
    assert len(not_compiled([launch(number=5), launch(number=7), launch(number=5)])) == 1
    kinds = [launch(number=n) for n in (5, 7, 16, 32, 1)]
    assert len(not_compiled(kinds)) == 3
    # Addresses that are and are not multiples of 16; other types, constants and options.
    others = [launch(offset=1), launch(offset=4), launch(x=torch.zeros(9, dtype=torch.bfloat16))]
    others += [launch(BLOCK=32), launch(num_warps=2), launch(x=torch.zeros(9).to("meta"))]
    assert len(not_compiled([launch(), *others])) == 5


def test_what_is_compiled_is_in_the_cache_and_nothing_is_told_again(
    cache: Path,
) -> None:
    told: list[str] = []
    kinds = [launch(number=n) for n in (5, 16, 1)]
    assert len(not_compiled(kinds)) == 3
    assert compiled(cache) == set()
    compile_ahead(kinds, told.append)
    assert [line.partition(":")[0] for line in told] == ["compiling 3 kernels, once for this GPU"]
    assert "(processes: 2)" in told[0]
    assert len(compiled(cache)) == 3
    forget()
    compile_ahead(kinds, told.append)
    assert len(told) == 1


@pytest.mark.endurance
def test_a_kernel_that_does_not_compile_is_told_of_and_the_others_are_compiled(
    cache: Path,
) -> None:
    told: list[str] = []
    compile_ahead([launch(small_kernels.broken_kernel), launch(), launch(number=16)], told.append)
    assert len(compiled(cache)) == 2
    assert told[1].startswith("1 of 3 kernels were not compiled; the first: broken_kernel: ")
    assert "no_such_function" in told[1]


def test_compilers_need_no_gpu_and_leave_the_driver_as_it_was() -> None:
    from triton.runtime import driver

    before = driver._active
    with compiling_for(H100):
        assert driver.active.get_current_target() == H100
    assert driver._active is before


def test_compiled_kernels_stay_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    place = knobs.cache.dir
    keep_cache_place()
    assert os.environ["TRITON_CACHE_DIR"] == place
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    keep_cache_place()
    assert os.environ["TRITON_CACHE_DIR"] == "/elsewhere"
