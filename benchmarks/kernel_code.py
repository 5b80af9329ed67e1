"""Machine code of Triton kernels for named GPUs, made and read without a GPU.

Triton brings NVIDIA's assembler and disassembler, so what a kernel needs on a chip (registers,
stack, shared memory) and how many instructions its loops have can be known, and held by tests, on a
machine that could never run it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from machine_loops import Count, counted

CAPABILITIES = (80, 90, 100)
"""A100; H100 and H200; B200."""
_TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"


@dataclass(frozen=True)
class KernelCode:
    """What a compiled kernel needs.

    Attributes:
        registers: of a thread, at most 255.
        stack: bytes of a thread in local memory: registers that had to be spilled.
        shared: bytes of shared memory of a program.
        instructions: of the whole kernel.
        loops: instructions of each loop that are in no loop inside of it, in the order of the code.
        special: of the instructions, those of the unit for exponentials, roots and quotients.
        special_loops: likewise of each loop.
    """

    registers: int
    stack: int
    shared: int
    instructions: int
    loops: tuple[int, ...]
    special: int
    special_loops: tuple[int, ...]


def compile_kernel(
    kernel: Any,  # noqa: ANN401 - triton.JITFunction, which depends on how Triton was imported
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    capability: int,
    **options: int,
) -> KernelCode:
    """Compile a kernel for GPUs of one compute capability.

    Args:
        kernel: a function under ``triton.jit``.
        types: of its arguments by name, such as ``*bf16``, ``i32`` and ``fp32``. Pointers are taken
            to be aligned to 16 bytes, as PyTorch's allocations are.
        constants: its other arguments by name.
        capability: such as 90 for sm_90.
        options: ``num_warps``, ``num_stages``.

    Raises:
        ValueError: an argument has neither a type nor a value.
    """
    names = list(kernel.arg_names)
    missing = [name for name in names if name not in types and name not in constants]
    if missing:
        raise ValueError(f"{kernel.__name__}: no type or value for {', '.join(missing)}")
    signature = {name: types.get(name, "constexpr") for name in names}
    values = {(names.index(name),): value for name, value in constants.items() if name in names}
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(names)
        if signature[name].startswith("*")
    }
    source = ASTSource(kernel, signature, values, aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    registers, stack, every, special = _read(compiled.asm["cubin"])
    return KernelCode(registers, stack, compiled.metadata.shared, *every, *special)


def _read(cubin: bytes) -> tuple[int, int, Count, Count]:
    """Registers, stack, instructions and those of the unit for exponentials."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        usage = _run("cuobjdump", "-res-usage", str(file))
        listing = _run("nvdisasm", "-c", str(file))
    registers, stack = (int(_find(rf"{name}:(\d+)", usage)) for name in ("REG", "STACK"))
    return registers, stack, *counted(listing)


def _find(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"the disassembler's answer has no {pattern}: {text[:200]}")
    return match[1]


def _run(tool: str, *arguments: str) -> str:
    command = [str(_TOOLS / tool), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
