"""Which implementation of an operation runs, and what a trial decides."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from vrtspike.deblurring.models.ops import dispatch
from vrtspike.deblurring.models.ops.dispatch import (
    KERNELS,
    REFERENCE,
    VARIABLE,
    Compute,
    Operation,
    obstacle,
    refusal,
    settle,
    uses_kernel,
)
from vrtspike.deblurring.models.ops.launch import TracingMode
from vrtspike.deblurring.models.ops.registry import OPERATIONS, describe_operations
from vrtspike.errors import RunError

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
HALF = torch.bfloat16
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")


@pytest.fixture(autouse=True)
def _no_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_VERDICTS", {})
    monkeypatch.delenv(VARIABLE, raising=False)


def differing(
    outcome: float | Exception = 0.0, name: str = "sums"
) -> tuple[Operation, list[torch.dtype]]:
    """An operation with an outcome of its trial, and the types for which it was tried."""
    tried: list[torch.dtype] = []

    def trial(device: torch.device, dtype: torch.dtype) -> float:
        tried.append(dtype)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Operation(name, trial), tried


def on_cuda(dtype: torch.dtype = torch.float32) -> Tensor:
    """What stands for a tensor on a GPU where there may be none."""
    return SimpleNamespace(device=CUDA, dtype=dtype)  # type: ignore[return-value]


@pytest.mark.parametrize(("share", "dtype"), [(0.9e-2, torch.float16), (2.9e-2, HALF)])
def test_a_small_difference_is_accepted_once_and_for_all(share: float, dtype: torch.dtype) -> None:
    operation, tried = differing(share)
    assert refusal(operation, CPU, dtype) == refusal(operation, CPU, dtype) == ""
    assert tried == [dtype]


class CompilationError(Exception):
    """As Triton's, of a class of its own."""


@pytest.mark.parametrize(
    ("outcome", "dtype", "reason"),
    [
        (0.031, HALF, "differs from the reference by 3.1e-02 of the norm"),
        (0.011, torch.float16, "differs from the reference by 1.1e-02 of the norm"),
        (float("nan"), HALF, "differs from the reference by nan of the norm"),
        (CompilationError("no instruction"), HALF, "CompilationError: no instruction"),
    ],
)
def test_a_refused_kernel_is_told_once_with_the_reason(
    outcome: float | Exception, dtype: torch.dtype, reason: str
) -> None:
    operation, tried = differing(outcome)
    with pytest.warns(UserWarning, match="the kernel of sums is not used on cpu, the reference"):
        assert refusal(operation, CPU, dtype) == reason
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refusal(operation, CPU, dtype) == reason
    assert tried == [dtype]


def test_full_memory_says_nothing_of_the_kernel() -> None:
    full, _ = differing(torch.OutOfMemoryError("tried to allocate 3 GiB"))
    message = "memory ran out while the kernel of sums was tried .*3 GiB.*1 GiB to be free"
    with pytest.raises(RunError, match=message):
        refusal(full, CPU, HALF)
    assert not dispatch._VERDICTS


@pytest.mark.parametrize("lost", [False, True])
def test_a_lost_context_ends_the_run_and_another_error_does_not(
    lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, _ = differing(RuntimeError("out of resources"))
    broken, _ = differing(RuntimeError("an illegal memory access was encountered"))
    synchronize = broken.trial if lost else lambda *_: None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: synchronize(device, HALF))
    if lost:
        with pytest.raises(RunError, match=f"kernel of sums .*Start again with {VARIABLE}=sums"):
            refusal(failing, CUDA, HALF)
        assert not dispatch._VERDICTS
    else:
        with pytest.warns(UserWarning, match="out of resources"):
            assert refusal(failing, CUDA, HALF) == "RuntimeError: out of resources"


@needs_triton
@pytest.mark.parametrize(
    ("dtype", "disabled", "variable", "reason"),
    [
        (HALF, (), "", ""),
        (torch.float16, ("others",), "others", ""),
        (torch.float32, (), "", "products are float32"),
        (HALF, ("sums",), "", "off by MODEL.DISABLE_KERNELS"),
        (HALF, ("all",), "", "off by MODEL.DISABLE_KERNELS"),
        (HALF, (), "others, sums", f"off by {VARIABLE}"),
        (HALF, (), "all", f"off by {VARIABLE}"),
    ],
)
def test_settings_and_environment_switch_kernels_off(
    dtype: torch.dtype,
    disabled: tuple[str, ...],
    variable: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, variable)
    operation, tried = differing()
    compute = Compute(disabled=frozenset(disabled))
    found = obstacle("sums", CUDA, dtype, compute)
    assert found.endswith(reason)
    assert bool(found) == bool(reason)
    assert uses_kernel(operation, on_cuda(), dtype, compute) == (not reason)
    assert tried == ([] if reason else [dtype])
    assert obstacle("sums", CPU, dtype, compute) == "kernels are for CUDA devices"


def test_without_triton_the_reference_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "find_spec", lambda _: None)
    assert "triton is missing" in obstacle("sums", CUDA, HALF, Compute())


def test_trials_compare_kernels_with_the_reference() -> None:
    operation, tried = differing()
    x = torch.zeros(1)
    assert uses_kernel(operation, x, torch.float16, KERNELS)
    assert not uses_kernel(operation, x, torch.float32, KERNELS)
    assert not uses_kernel(operation, x, torch.float16, REFERENCE)
    assert REFERENCE.keeps_all(CPU)
    assert not tried


def test_a_kernel_that_any_rank_refuses_is_used_by_none() -> None:
    good, bad, others = differing(0.0, "good")[0], differing(1.0, "bad")[0], differing(0.0, "o")[0]
    said: list[object] = []

    def gather(refused):
        said.append(dict(refused))
        return [{"good": "does not compile"}, refused]

    with pytest.warns(UserWarning, match="kernel of bad"):
        settle([good, bad, others], CPU, HALF, gather)
    assert [list(refused) for refused in said] == [["bad"]]
    assert refusal(good, CPU, HALF) == "rank 0: does not compile"
    assert refusal(bad, CPU, HALF).startswith("differs")
    assert not refusal(others, CPU, HALF)


def saving_trial(device: torch.device, dtype: torch.dtype) -> float:
    """Saves tensors, and makes gradients and products, as trials do."""
    with torch.enable_grad():
        x = torch.ones(4, 4, device=device, dtype=dtype, requires_grad=True)
        (grad,) = torch.autograd.grad((x @ x).sigmoid().sum(), x)
    return float(grad.isnan().any())


def test_a_trial_inside_of_a_checkpoint_is_none_of_its_business() -> None:
    answers: list[bool] = []

    def layer(x: Tensor) -> Tensor:
        answers.append(not refusal(Operation("sums", saving_trial), CPU, HALF))
        return torch.tanh(x) * x

    x = torch.randn(5, requires_grad=True)
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    # The layer runs twice, and is what it is without a checkpoint.
    assert answers == [True, True]
    (expected,) = torch.autograd.grad((torch.tanh(x) * x).sum(), x)
    torch.testing.assert_close(x.grad, expected)


@needs_triton
def test_counted_products_are_those_of_the_reference() -> None:
    operation, tried = differing()
    with FlopCounterMode(display=False):
        assert not uses_kernel(operation, on_cuda(), HALF, Compute())
    assert uses_kernel(operation, on_cuda(), HALF, Compute())
    assert tried == [HALF]


@needs_triton
def test_tensors_without_data_take_kernels_where_launches_are_noted() -> None:
    operation, tried = differing()
    for mode, expected in ((FakeTensorMode(), False), (TracingMode(lambda *_: None), True)):
        with mode:
            x = torch.empty(3, device=CUDA)
            assert uses_kernel(operation, x, HALF, Compute()) == expected
    assert not tried


@pytest.mark.parametrize("gib", [24, 48, 80, 141, None])
def test_what_is_kept_for_the_backward_pass(
    monkeypatch: pytest.MonkeyPatch, gib: int | None
) -> None:
    """What the settings ask for; else everything on large GPUs, of which none is one, too."""
    # Somewhat less than its name says is what a GPU has.
    memory = SimpleNamespace(total_memory=int(0.98 * (gib or 0) * 2**30))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gib is not None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: memory)
    assert Compute().keeps_all(CUDA) == (gib is None or gib >= 80)
    assert not Compute().keeps_all(CPU)
    for device in (CPU, CUDA):
        assert Compute(recompute="none").keeps_all(device)
        assert not Compute(recompute="cheap").keeps_all(device)


@needs_triton
def test_a_log_tells_own_kernels_from_refused_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "deform_conv")
    for operation in OPERATIONS[:2]:
        dispatch._VERDICTS[operation.name, CUDA, HALF] = ""
    refused = "does not compile"
    dispatch._VERDICTS["feed_forward", CUDA, HALF] = refused
    monkeypatch.setattr(torch, "empty", lambda *_, **__: on_cuda())
    text = describe_operations(Compute(), CUDA, HALF)
    assert text == (
        "window_attention: triton, projections: own kernel, "
        f"feed_forward: PyTorch (does not compile), deform_conv: PyTorch (off by {VARIABLE})"
    )
