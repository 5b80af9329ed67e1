"""Machine code of the token layers' kernels: registers, shared memory and length of inner loops."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from vrtspike.deblurring.models.kernel_launch import tile
from vrtspike.deblurring.models.token_ops import input_projections as projections
from vrtspike.deblurring.models.token_ops import output_projection as output
from vrtspike.deblurring.models.token_ops import triton_feed_forward as feed_forward
from vrtspike.deblurring.models.token_ops import triton_gate as gate
from vrtspike.deblurring.models.token_ops import weight_gradients
from vrtspike.deblurring.models.token_ops.launch import with_one

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
TRITON = "3.9"
KIB = 1024
# Of a program: smaller GPUs of the same code as an A100 have 99 KiB, an H100 and a B200 227.
SHARED = {80: 99 * KIB, 90: 227 * KIB, 100: 227 * KIB}
HALF = {
    *("w_gate", "w_value", "w_out", "normed", "scaled", "w_own", "w_mutual", "out_own"),
    *("out_mutual", "grad_own", "grad_mutual", "own", "mutual", "coded", "left", "right"),
    *("left_b", "right_b"),
    *("gate", "value", "last", "grad_hidden", "products", "hidden"),
}
NUMBERS = {
    *("length", "samples", "length_own", "length_mutual", "height", "width", "padded_h"),
    *("padded_w", "shift_h", "shift_w", "left_length", "right_length", "rows", "length_b"),
    *("left_length_b", "right_length_b", "count"),
}
# The wider layers of the published model; both widths take tiles of 128 channels.
CHANNELS = 120

Loops = dict[int, tuple[int, ...]]
Launches = tuple[Mapping[str, int], Mapping[str, int]]


def same(launch: Mapping[str, int]) -> Launches:
    return launch, launch


# Module, kernel, launches on large and on smaller GPUs, bytes of stack that are allowed, and
# instructions of the loops on each architecture it is for, with a tenth to spare.
CASES: list[tuple[str, str, Launches, int, Loops]] = [
    (
        "feed_forward_kernels",
        "forward_kernel",
        (feed_forward.FORWARD, feed_forward.FORWARD_SMALL),
        0,
        {80: (385,), 90: (557,), 100: (591,)},
    ),
    (
        "feed_forward_kernels",
        "rows_kernel",
        (feed_forward.ROWS, feed_forward.ROWS_SMALL),
        0,
        {80: (631,), 90: (561,), 100: (610,)},
    ),
    (
        "feed_forward_kernels",
        "fold_kernel",
        same(feed_forward.FOLD),
        0,
        {80: (), 90: (), 100: ()},
    ),
    (
        "feed_forward_kernels",
        "unfold_kernel",
        same(feed_forward.UNFOLD),
        0,
        {80: (611,), 90: (608,), 100: (580,)},
    ),
    ("gate_kernels", "gate_kernel", same(gate.GATE), 0, {80: (), 90: (), 100: ()}),
    (
        "gate_kernels",
        "gate_gradient_kernel",
        same(gate.GATE_GRADIENT),
        0,
        {80: (501,), 90: (500,), 100: (424,)},
    ),
    (
        "joined_kernels",
        "joined_kernel",
        same(feed_forward.FORWARD),
        0,
        # Smaller GPUs have no room for both.
        {90: (601,), 100: (585,)},
    ),
    (
        "projection_kernels",
        "lay_kernel",
        same(projections.LAY),
        0,
        {80: (359,), 90: (360,), 100: (360,)},
    ),
    (
        "projection_kernels",
        "input_kernel",
        same(projections.INPUT),
        0,
        {80: (189, 310), 90: (136, 238), 100: (151, 185)},
    ),
    (
        "projection_kernels",
        "input_rows_kernel",
        same(projections.INPUT_ROWS),
        0,
        {80: (111, 113), 90: (95, 95), 100: (108, 106)},
    ),
    (
        "projection_kernels",
        "output_kernel",
        same(output.OUTPUT),
        0,
        {80: (), 90: (), 100: ()},
    ),
    (
        "projection_kernels",
        "output_rows_kernel",
        same(output.OUTPUT_ROWS),
        0,
        {80: (), 90: (), 100: ()},
    ),
    (
        "weight_kernels",
        "weights_kernel",
        same(weight_gradients.WEIGHTS),
        0,
        # Of a product its samples and its rows, then the lines, then the second product.
        {
            80: (167, 227, 172, 160, 233),
            90: (144, 159, 167, 143, 159),
            100: (297, 177, 155, 295, 177),
        },
    ),
]


def constants() -> dict[str, Any]:
    """Of all kernels, as a preset with mutual attention and stochastic depth has them."""
    return {
        "C": CHANNELS,
        "WIDTH": with_one(CHANNELS),
        "BLOCK_C": tile(with_one(CHANNELS)),
        "H": 2 * CHANNELS,
        "OUT": 3 * CHANNELS,
        "STRIDE": CHANNELS,
        "COLUMN": 1,
        "START": 0,
        "START_B": 3 * CHANNELS * (CHANNELS + 1),
        "OUT_B": 3 * CHANNELS,
        "WIDTH_B": with_one(CHANNELS),
        "STRIDE_B": CHANNELS,
        "COLUMN_B": 1,
        "TWO": True,
        "N": 2 * CHANNELS,
        "BLOCK_N": tile(2 * CHANNELS),
        "LINE": 6 * CHANNELS * (CHANNELS + 1) + 2 * CHANNELS,
        "PLACES": 64,
        "WINDOW_H": 8,
        "WINDOW_W": 8,
        "GATED": True,
        "AGAIN": True,
        "KEEP": True,
        "KEEP_FED": True,
        "SPATIAL": False,
        "AROUND": True,
        "MUTUAL": True,
        "EPSILON": 1e-5,
        "PRECISION": "tf32",
    }


def compiled(
    module: str,
    name: str,
    launch: Mapping[str, int],
    capability: int,
    monkeypatch: pytest.MonkeyPatch,
    **others: bool,
) -> Any:
    """Code of a kernel, with other constants than those of all kernels."""
    if not import_module("triton").__version__.startswith(TRITON):
        pytest.skip(f"the figures are those of Triton {TRITON}")
    monkeypatch.syspath_prepend(BENCHMARKS)
    from kernel_code import compile_kernel

    kernel = getattr(import_module(f"vrtspike.deblurring.models.token_ops.{module}"), name)
    sizes = dict(launch)
    options = {key: sizes.pop(key) for key in list(sizes) if key.startswith("num_")}
    values = {**constants(), **others, **sizes}
    names = [argument for argument in kernel.arg_names if argument not in values]
    types = {n: "*bf16" if n in HALF else "i32" if n in NUMBERS else "*fp32" for n in names}
    return compile_kernel(kernel, types, values, capability, **options)


@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
def test_where_factors_lie_in_memory_compiles_nothing_anew() -> None:
    """A row of those that are drawn for a run step, part of a table in a recorded one.

    A kernel that is loaded while a CUDA graph is recorded ends the recording.
    """
    models = "vrtspike.deblurring.models"
    rooms = ("feed_forward", "joined", "projection", "weight")
    modules = [f"{models}.token_ops.{room}_kernels" for room in rooms]
    rooms = ("forward", "gradients", "joint")
    modules += [f"{models}.window_attention.triton_{room}" for room in rooms]
    seen = []
    for module in map(import_module, modules):
        for name, kernel in vars(module).items():
            for parameter in getattr(kernel, "params", ()):
                if parameter.name.startswith("keep") and name.endswith("_kernel"):
                    assert parameter.do_not_specialize_on_alignment, f"{module.__name__}.{name}"
                    seen.append(name)
    assert len(seen) == 14


# Attention along time runs feed-forward layers without a gate; the rows need more of the stack.
UNGATED = {"forward_kernel": 0, "rows_kernel": 32, "fold_kernel": 0, "unfold_kernel": 0}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
@pytest.mark.parametrize("name", UNGATED)
def test_kernels_without_a_gate_fit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (launch, _), (loop,) = next((case[2], case[4][90] or (0,)) for case in CASES if case[1] == name)
    code = compiled("feed_forward_kernels", name, launch, 90, monkeypatch, GATED=False)
    assert code.stack <= UNGATED[name]
    assert code.shared <= SHARED[90]
    assert max(code.loops, default=0) <= loop


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
@pytest.mark.parametrize(
    ("case", "capability"),
    [pytest.param(c, of, id=f"{c[0]}-{c[1]}-{of}") for c in CASES for of in c[4]],
)
def test_kernels_fit(
    case: tuple[str, str, Launches, int, Loops], capability: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, launches, stack, loops = case
    launch = launches[0] if capability >= 90 else launches[1]
    code = compiled(module, name, launch, capability, monkeypatch)
    assert code.stack <= stack
    assert code.shared <= SHARED[capability]
    assert len(code.loops) == len(loops[capability])
    for found, expected in zip(code.loops, loops[capability], strict=True):
        assert found <= 1.1 * expected


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
@pytest.mark.parametrize(
    "kind",
    [{"GATED": False, "MUTUAL": False}, {"MUTUAL": False}, {"SPATIAL": True}],
    ids=["along time", "self attention", "padded"],
)
def test_joined_layers_of_any_kind_fit(
    kind: Mapping[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = feed_forward.FORWARD
    code = compiled("joined_kernels", "joined_kernel", launch, 90, monkeypatch, **kind)
    assert code.stack == 0
    assert code.shared <= SHARED[90]
    assert max(code.loops) <= 660


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
def test_the_gradient_of_one_weight_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = weight_gradients.WEIGHTS
    code = compiled("weight_kernels", "weights_kernel", launch, 90, monkeypatch, TWO=False)
    assert code.stack == 0
    assert code.shared <= SHARED[90]
    assert len(code.loops) == 3
    assert max(code.loops) <= 190


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
@pytest.mark.parametrize(
    "kind", [{"AROUND": False}, {"SPATIAL": True}], ids=["within a group", "padded"]
)
def test_gradients_of_projections_of_any_kind_fit(
    kind: Mapping[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = projections.INPUT_ROWS
    code = compiled("projection_kernels", "input_rows_kernel", launch, 90, monkeypatch, **kind)
    assert code.stack == 0
    assert code.shared <= SHARED[90]
    assert max(code.loops) <= 105


def test_blocks_divide_the_tiles_that_have_no_masks() -> None:
    hidden = {launch["BLOCK_H"] for launch in (*feed_forward.LAUNCHES, feed_forward.FOLD)}
    assert {feed_forward.HIDDEN % block for block in hidden} == {0}
    launches = (projections.INPUT, projections.INPUT_ROWS, projections.LAY)
    assert {projections.ROWS % launch["BLOCK_O"] for launch in launches} == {0}
