"""A micro-step without waits of the host: nothing but the batch is copied, and that in the
background."""

from __future__ import annotations

import pytest
import torch
import yaml
from torchvision.models import vgg16

from tests.deblurring.test_preset import PRESET
from tests.stalls import GPU, NoStalls, without_data
from vrtspike.deblurring.data.store.voxels import Statistics
from vrtspike.deblurring.losses.charbonnier import charbonnier
from vrtspike.deblurring.losses.term import Term
from vrtspike.deblurring.losses.vgg_perceptual import Perceptual
from vrtspike.deblurring.metrics.psnr import PSNR, psnr
from vrtspike.deblurring.preset import build_network
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.task import DeblurringTask, Teacher
from vrtspike.training.precision import Precision


def settings() -> Settings:
    preset = yaml.safe_load(PRESET)
    preset["TRAIN"]["PRECISION"] = "bf16-mixed"
    return Settings.model_validate(preset)


def task(teacher: Teacher | None = None) -> DeblurringTask:
    vgg = Perceptual(vgg16(weights=None, init_weights=False), ("relu3_3",))
    terms = [Term("charbonnier", 1.0, charbonnier), Term("vgg", 0.1, vgg)]
    return DeblurringTask(Statistics(0.3, 0.2, 5), terms, {PSNR: psnr}, teacher)


def batch() -> dict[str, torch.Tensor]:
    """What a data loader gives: integers on the host."""
    frames = torch.zeros(1, 2, 32, 32, 3, dtype=torch.uint8)
    return {
        "blur": frames,
        "sharp": frames.clone(),
        "counts": torch.zeros(1, 2, 4, 16, 16, dtype=torch.uint8),
        "bin_steps": torch.ones(1, 2, 4, dtype=torch.uint8),
        "gain": torch.ones(1),
    }


def test_a_micro_step_waits_for_nothing():
    known = settings()
    with without_data():
        arithmetic, raw = Precision(known.TRAIN, GPU), batch()
        with GPU:
            model = build_network(known).train()
            teacher = Teacher(build_network(known).eval(), 0.5)
            problem = task(teacher)
        for number in range(2):
            # The first pass lays out windows, which later ones find.
            with NoStalls(refusing=number > 0) as watched:
                prepared = problem.prepare(raw, GPU)
                with arithmetic.autocast():
                    output = problem.forward(model, prepared)
                    # The type of autocast's products, where it is on.
                    assert (output @ output.mT).dtype == arithmetic.compute_type
                losses = problem.losses(output.float(), prepared, 0)
                torch.stack(list(losses.values())).sum()
        assert sorted(losses) == ["charbonnier", "distillation", "vgg"]
        assert watched.copies == len(raw)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_whole_micro_step_on_a_gpu_waits_for_nothing():
    known = settings()
    arithmetic = Precision(known.TRAIN, GPU)
    model = build_network(known).to(GPU).train()
    with GPU:
        problem = task()
    raw = {name: value.pin_memory() for name, value in batch().items()}
    for number in range(3):
        torch.cuda.set_sync_debug_mode("error" if number else "default")
        try:
            prepared = problem.prepare(raw, GPU)
            with arithmetic.autocast():
                output = problem.forward(model, prepared)
            losses = problem.losses(output.float(), prepared, 0)
            arithmetic.backward(torch.stack(list(losses.values())).sum())
        finally:
            torch.cuda.set_sync_debug_mode("default")
