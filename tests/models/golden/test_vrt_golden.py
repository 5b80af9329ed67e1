"""The model against the published implementation's outputs, flows and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from vrtspike.models.vrt import VRT

pytestmark = pytest.mark.shared

TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 1e-3
# The golden gradient of the finest flow level, in float32, is 1.2e-3 away from float64's.
GPU_GRADIENT_TOLERANCE = 2e-3


def compare(
    vrt: VRT, tensors: dict[str, Tensor], case: str, tolerance: float = GRADIENT_TOLERANCE
) -> None:
    blur = tensors[f"{case}.input"]
    output = vrt(blur)
    assert (output - tensors[f"{case}.output"]).abs().max() <= TOLERANCE
    loss = (output - tensors[f"{case}.target"]).abs().mean()
    assert loss.item() == pytest.approx(tensors[f"{case}.loss"].item(), abs=1e-6)
    loss.backward()
    prefix = f"{case}.grad."
    parameters = dict(vrt.named_parameters())
    compared = 0
    for name, expected in tensors.items():
        if name.startswith(prefix):
            result = parameters[name.removeprefix(prefix)].grad
            assert result is not None
            error = (result - expected).norm() / expected.norm()
            assert error <= tolerance, name
            compared += 1
    assert compared == 10


@pytest.mark.parametrize("case", ["t5", "t6"])
def test_flow_is_that_of_the_published_model(
    golden_vrt: Callable[..., VRT], golden_tensors: dict[str, Tensor], case: str
) -> None:
    with torch.no_grad():
        finest, *_ = golden_vrt().flows(golden_tensors[f"{case}.input"])
    expected = golden_tensors[f"{case}.flow_backward_0"].flatten(0, 1)
    assert (finest[: len(expected)] - expected).abs().max() <= TOLERANCE


RARELY = pytest.mark.endurance


@pytest.mark.parametrize(
    ("case", "attention", "attn", "ffn"),
    [
        ("t5", "auto", False, False),
        pytest.param("t6", "sdpa", True, False, marks=RARELY),
        pytest.param("t5", "recompute", False, True, marks=RARELY),
        pytest.param("t6", "recompute", True, True, marks=RARELY),
    ],
)
def test_output_and_gradients_agree(
    golden_vrt: Callable[..., VRT],
    golden_tensors: dict[str, Tensor],
    case: str,
    attention: str,
    attn: bool,
    ffn: bool,
) -> None:
    vrt = golden_vrt(attention=attention, use_checkpoint_attn=attn, use_checkpoint_ffn=ffn)
    compare(vrt, golden_tensors, case)


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["t5", "t6"])
@pytest.mark.parametrize("attention", ["sdpa", "recompute"])
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_every_implementation_agrees_on_a_gpu(
    golden_vrt: Callable[..., VRT],
    golden_tensors: dict[str, Tensor],
    case: str,
    attention: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # cuDNN's convolutions round float32 to ten bits unless told not to.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    on_device = {name: tensor.cuda() for name, tensor in golden_tensors.items()}
    vrt = golden_vrt(attention=attention).cuda()
    compare(vrt, on_device, case, GPU_GRADIENT_TOLERANCE)
