"""Data types, loss scaling and deterministic algorithms."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vrtspike.config.run_schema import TrainSettings
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.training.precision import Precision, set_numerics

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "forward", "weights"),
    [
        ("32", torch.float32, torch.float32),
        ("16-mixed", torch.float32, torch.float32),
        ("bf16-mixed", torch.bfloat16, torch.float32),
        ("bf16-true", torch.bfloat16, torch.bfloat16),
        ("mixed", torch.bfloat16, torch.float32),
    ],
)
def test_types_of_forward_weights_and_losses(name, forward, weights):
    precision = Precision(TrainSettings(PRECISION=name), CPU)
    model = nn.Linear(4, 4)
    precision.prepare(model)
    with precision.autocast():
        output = model(input=torch.ones(2, 4))
        assert output.dtype == precision.compute_type == forward
        with precision.full_precision():
            assert (output.float() @ torch.ones(4, 1)).dtype == torch.float32
    assert model.weight.dtype == weights


@pytest.mark.filterwarnings("ignore:.*CUDA is not available:UserWarning")
def test_float16_is_for_gpus_alone():
    train = TrainSettings(PRECISION="16-mixed")
    on_gpu = Precision(train, torch.device("cuda"))
    assert on_gpu.compute_type == torch.float16
    # Sums over all pixels in float16 would need another scale of the loss.
    model = nn.Linear(1, 1)
    assert on_gpu.forward_module(model, half_precision_weights=True) is model
    on_cpu = Precision(train, CPU)
    assert (on_cpu.name, on_cpu.compute_type) == ("32", torch.float32)
    # A checkpoint has the scale, whatever device wrote it.
    assert on_cpu.scaler.state_dict()["scale"] == train.AMP_INIT_SCALE


def test_without_float16_the_scale_does_not_grow():
    precision = Precision(TrainSettings(PRECISION="16-mixed", AMP_INIT_SCALE=8.0), CPU)
    precision.scaler.set_growth_interval(1)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(3):
        precision.scaler.scale(model(torch.ones(1, 2)).sum()).backward()
        precision.step(optimizer, finite=True)
        assert precision.scaler.get_scale() == 8.0


def test_scaled_loss_overflow_skips_the_step_and_lowers_the_scale():
    precision = Precision(TrainSettings(PRECISION="16-mixed", AMP_INIT_SCALE=2.0**20), CPU)
    model = nn.Linear(2, 1)
    before = model.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    precision.scaler.scale(model(torch.full((1, 2), 1e38)).sum()).backward()
    precision.scaler.unscale_(optimizer)
    assert not torch.isfinite(model.weight.grad).all()
    precision.step(optimizer, finite=False)
    assert torch.equal(model.weight, before)
    state = precision.scaler.state_dict()
    assert state["scale"] == 2.0**19
    other = Precision(TrainSettings(PRECISION="16-mixed"), CPU)
    other.scaler.load_state_dict(state)
    assert other.scaler.state_dict() == state


def test_unscaled_gradients_have_their_true_size():
    precision = Precision(TrainSettings(PRECISION="16-mixed"), CPU)
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    before = model.weight.detach().clone()
    precision.scaler.scale(model(torch.tensor([[2.0, 3.0]])).sum()).backward()
    precision.scaler.unscale_(optimizer)
    assert torch.equal(model.weight.grad, torch.tensor([[2.0, 3.0]]))
    precision.step(optimizer, finite=True)
    assert torch.equal(model.weight, before - torch.tensor([[1.0, 1.5]]))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_determinism_is_an_error_on_a_cpu_and_a_warning_on_a_gpu(monkeypatch, kind, deterministic):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    try:
        set_numerics(DeblurringSettings(DETERMINISTIC=deterministic), torch.device(kind))
        assert torch.are_deterministic_algorithms_enabled() is deterministic
        assert torch.is_deterministic_algorithms_warn_only_enabled() is (
            deterministic and kind == "cuda"
        )
        # The fastest algorithm is looked for where results need not repeat.
        assert torch.backends.cudnn.benchmark is (kind == "cuda" and not deterministic)
        # Sums of products are not cut to half precision.
        matmul = torch.backends.cuda.matmul
        assert not matmul.allow_bf16_reduced_precision_reduction
        assert not matmul.allow_fp16_reduced_precision_reduction
    finally:
        torch.use_deterministic_algorithms(False)
