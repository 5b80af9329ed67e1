"""The real model in a pass that is recorded: its decisions by chance come from the device."""

from __future__ import annotations

import torch
import yaml

from tests.deblurring.test_preset import PRESET
from vrtspike.deblurring.preset import build_network
from vrtspike.deblurring.settings import Settings
from vrtspike.host_draws import DrawTable, drawing_from

CPU = torch.device("cpu")


def gradients(model: torch.nn.Module) -> torch.Tensor:
    torch.manual_seed(2)
    model.zero_grad()
    frames, voxels = torch.rand(2, 2, 3, 32, 32), torch.rand(2, 2, 4, 32, 32)
    torch.manual_seed(3)
    model(frames, voxels).square().mean().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_a_recorded_pass_is_the_pass_that_would_have_been_run():
    preset = yaml.safe_load(PRESET)
    preset["MODEL"]["VRT_DEPTHS"] = [2] * 8
    preset["MODEL"]["VRT"] |= {
        "DROP_PATH_RATE": 0.6,
        "USE_CHECKPOINT_ATTN": True,
        "USE_CHECKPOINT_FFN": True,
    }
    torch.manual_seed(1)
    model = build_network(Settings.model_validate(preset)).train()
    # Layers that begin at zero hide what stands before them.
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    expected = gradients(model)
    laid_out = DrawTable(CPU)
    with drawing_from(laid_out, model):
        everything = gradients(model)
    assert (everything - expected).norm() > 0.1 * expected.norm()
    torch.manual_seed(3)
    laid_out.redraw()
    replayed = DrawTable(CPU)
    replayed._values.copy_(laid_out._values)
    with drawing_from(replayed, model):
        found = gradients(model)
    assert (found - expected).norm() < 1e-5 * expected.norm()
