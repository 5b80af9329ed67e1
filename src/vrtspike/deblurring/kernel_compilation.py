"""Our Triton kernels compiled before their first launch, several at a time.

Triton compiles a kernel when it is first launched with arguments of some kind, one after the other,
and keeps the result on disk. Here processes compile kernels that are known to be launched: into the
same files, because Triton itself decides from the same arguments which those are.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import torch
from torch import Tensor

from vrtspike.deblurring.models.ops.launch import make_cache_key
from vrtspike.system.cpus import available_cpus
from vrtspike.system.processes import for_each

MOST_PROCESSES = 8
SECONDS_EACH = 1.0
"""CPU time that a kernel takes in the mean: 207 s for the 218 of the preset ``fast`` on sm_90."""
_START_SECONDS = 5.0  # of processes that import PyTorch and Triton

# What Triton calls the place of its compiled kernels, and which device a compiler of others has.
_CACHE_DIR = "TRITON_CACHE_DIR"
_NO_DEVICE = -1
_ALIGNMENT = 16


@dataclass(frozen=True)
class Pointer:
    """What Triton asks of a tensor before it compiles a kernel.

    Attributes:
        dtype: of its values.
        remainder: of its address in bytes, divided by 16.
    """

    dtype: torch.dtype
    remainder: int

    def data_ptr(self) -> int:
        """An address that is aligned as the tensor's."""
        return self.remainder


@dataclass(frozen=True)
class KernelLaunch:
    """A launch without its data: all that decides what is compiled.

    Attributes:
        module: where the kernel stands.
        name: of the kernel there.
        arguments: of the kernel and options of the launch by name; tensors as :class:`Pointer`.
    """

    module: str
    name: str
    arguments: tuple[tuple[str, Any], ...]

    @property
    def kernel(self) -> Any:  # noqa: ANN401 - triton.JITFunction
        """The function under ``triton.jit``."""
        return getattr(import_module(self.module), self.name)

    def compile(self) -> None:
        """Compile for the current target, or load what is in the cache."""
        make_cache_key(self.kernel)
        self.kernel.warmup(grid=(1,), **dict(self.arguments))


def launch_of(kernel: Any, arguments: Mapping[str, Any]) -> KernelLaunch:  # noqa: ANN401 - of Triton
    """A launch as :class:`~vrtspike.deblurring.models.ops.launch.TracingMode` notes it.

    Storages of tensors are taken to be aligned, as PyTorch's allocations are.
    """
    plain = tuple((name, _plain(value)) for name, value in arguments.items())
    return KernelLaunch(kernel.__module__, kernel.__name__, plain)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any argument of a kernel
    if not isinstance(value, Tensor):
        return value
    return Pointer(value.dtype, int(value.storage_offset()) * value.element_size() % _ALIGNMENT)


def compile_ahead(launches: Iterable[KernelLaunch], tell: Callable[[str], None]) -> None:
    """Compile the kernels of launches that are not in Triton's cache yet.

    A kernel that does not compile is told of and left to the trial of its operation.

    Args:
        launches: on the current CUDA device.
        tell: shows a message; not called where all kernels are in the cache.

    Raises:
        RunError: a process was killed.
    """
    from triton.runtime import driver

    missing = {str(number): launch for number, launch in enumerate(not_compiled(launches))}
    if not missing:
        return
    processes = min(available_cpus(), MOST_PROCESSES, len(missing))
    seconds = _START_SECONDS + SECONDS_EACH * len(missing) / processes
    tell(
        f"compiling {len(missing)} kernels, once for this GPU: about {seconds:.0f} s "
        f"(processes: {processes})"
    )
    work = partial(_compile, missing, driver.active.get_current_target())
    faults = [
        f"{missing[name].name}: {_cause(outcome)}"
        for name, outcome in for_each(work, missing, processes, fresh=True)
        if isinstance(outcome, Exception)
    ]
    if faults:
        tell(f"{len(faults)} of {len(missing)} kernels were not compiled; the first: {faults[0]}")


def not_compiled(launches: Iterable[KernelLaunch]) -> list[KernelLaunch]:
    """Of launches, one for each kernel that Triton would compile now."""
    found: dict[tuple[str, str], KernelLaunch] = {}
    with _no_compilation():
        for launch in dict.fromkeys(launches):
            try:
                launch.compile()
            except _NotCompiledError as missing:
                found.setdefault(missing.key, launch)
    return list(found.values())


def keep_cache_place() -> None:
    """Have this process look for compiled kernels in one place all the time.

    PyTorch's compiler otherwise moves it to a folder of its own when it compiles its first kernel,
    and all of ours would be compiled again.
    """
    from triton import knobs

    os.environ.setdefault(_CACHE_DIR, knobs.cache.dir)


class _NotCompiledError(Exception):
    """Triton has no compiled kernel; ``key`` tells which."""

    def __init__(self, key: tuple[str, str]) -> None:
        super().__init__(key)
        self.key = key


@contextlib.contextmanager
def _no_compilation() -> Iterator[None]:
    """Have Triton look into its cache, and fail where it would begin to compile.

    Raises:
        _NotCompiledError: in place of the first step of a compilation.
    """
    from triton.compiler import ASTSource

    def refuse(source: Any, _: Any, options: Any, *__: Any, **___: Any) -> NoReturn:  # noqa: ANN401
        raise _NotCompiledError((source.hash(), options.hash()))

    first_step = ASTSource.make_ir
    ASTSource.make_ir = refuse
    try:
        yield
    finally:
        ASTSource.make_ir = first_step


class _TargetDriver:
    """A driver of Triton that knows which GPU is compiled for, and needs none.

    One that asked CUDA would take half a gigabyte of GPU memory in each process.
    """

    def __init__(self, target: Any) -> None:  # noqa: ANN401 - triton's GPUTarget
        self._target = target

    def get_current_target(self) -> Any:  # noqa: ANN401
        return self._target

    def get_current_device(self) -> int:
        return _NO_DEVICE

    def get_current_stream(self, _: int) -> int:
        return 0


@contextlib.contextmanager
def compiling_for(target: Any) -> Iterator[None]:  # noqa: ANN401 - triton's GPUTarget
    """Compile for a GPU that need not be there, such as ``GPUTarget("cuda", 90, 32)``."""
    from triton.runtime import driver

    before = driver._active
    driver.set_active(_TargetDriver(target))
    try:
        yield
    finally:
        driver._active = before


def _compile(launches: Mapping[str, KernelLaunch], target: Any, name: str) -> None:  # noqa: ANN401
    # What Triton warns of it tells this process's parent, too, at its own launches.
    with warnings.catch_warnings(action="ignore"), compiling_for(target):
        launches[name].compile()


def _cause(error: Exception) -> str:
    """The last line of an error; Triton's begin with the source of the kernel."""
    return f"{type(error).__name__}: {str(error).strip().rpartition(chr(10))[2]}"
