"""Losses, metrics, counts and pictures of a batch, computed again by other code."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.deblurring.reference_metrics import decibels, similarity
from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.clips.samples import BinnedSpikes, Sample
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.deblurring.objective import DeblurringObjective
from vrtspike.evaluation.comparison_pictures import GAP, LABEL_HEIGHT
from vrtspike.losses.term import LossTerm
from vrtspike.metrics.psnr import PSNR
from vrtspike.metrics.ssim import SSIM
from vrtspike.metrics.tof import TOF

CPU = torch.device("cpu")
CLIPS, LENGTH, SIZE, BINS = 2, 3, 16, 4


SCORES = {metric: metric.load(None, CPU) for metric in (PSNR, SSIM)}


@pytest.fixture(scope="module")
def batch() -> Sample:
    """As a loader gives it: two clips of three frames and their spikes at half the size."""
    rng = np.random.default_rng(0)
    shape = (CLIPS, LENGTH, SIZE, SIZE, 3)
    blur, sharp = (rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(2))
    counts = rng.integers(0, 6, (CLIPS, LENGTH, BINS, SIZE // 2, SIZE // 2), dtype=np.uint8)
    spikes = BinnedSpikes(
        torch.from_numpy(counts),
        torch.tensor([[[21, 3, 4, 28]] * LENGTH] * CLIPS, dtype=torch.uint8),
        torch.tensor([2.0, 3.0]),
        has_neighbors=torch.zeros(CLIPS, 2, dtype=torch.bool),
    )
    return Sample(torch.from_numpy(blur), torch.from_numpy(sharp), spikes)


@pytest.fixture(scope="module")
def output() -> torch.Tensor:
    """Some restored clip, of values below 0 and above 1 as well."""
    noise = torch.Generator().manual_seed(1)
    return 1.4 * torch.rand((CLIPS, LENGTH, 3, SIZE, SIZE), generator=noise) - 0.2


class Power(LossTerm):
    """The mean of a power of the absolute differences."""

    def __init__(self, name: str, weight: float, interval: int, power: int) -> None:
        super().__init__(name, weight, interval)
        self.power = power

    def forward(self, restored: torch.Tensor, sharp: torch.Tensor) -> torch.Tensor:
        return (restored - sharp).abs().pow(self.power).mean()


def images(clip: torch.Tensor) -> np.ndarray:
    """(B, T, 3, H, W) in [0, 1] as 8-bit values (B, T, H, W, 3)."""
    return np.rint(clip.numpy().clip(0, 1).astype(np.float64) * 255).transpose(0, 1, 3, 4, 2)


def test_each_due_term_counts_with_its_weight_against_the_sharp_frames(batch, output):
    terms = [Power("absolute", 0.3, 1, power=1), Power("squared", 2.0, 3, power=2)]
    objective = DeblurringObjective(None, terms, SCORES)
    prepared = objective.prepare(batch, CPU)
    difference = output.numpy() - batch.sharp.numpy().transpose(0, 1, 4, 2, 3) / 255
    expected = {
        "absolute": 0.3 * np.abs(difference).mean(),
        "squared": 2.0 * np.square(difference).mean(),
    }
    for step in range(7):
        losses = {name: float(v) for name, v in objective.losses(output, prepared, step).items()}
        due = expected if step in (0, 3, 6) else {"absolute": expected["absolute"]}
        assert losses == pytest.approx(due, rel=1e-5)


def test_metrics_are_means_over_the_frames_of_each_clip(batch, output):
    objective = DeblurringObjective(None, [], SCORES)
    scores = objective.metrics(output, objective.prepare(batch, CPU))
    assert len(scores) == CLIPS
    sharp = batch.sharp.numpy().astype(float)
    for metrics, restored, truth in zip(scores, images(output), sharp, strict=True):
        for name, metric in (("psnr", decibels), ("ssim", similarity)):
            expected = [metric(*pair) for pair in zip(restored, truth, strict=True)]
            assert metrics[name] == pytest.approx(np.mean(expected))


def test_clips_and_frames_are_counted(batch):
    objective = DeblurringObjective(None, [], SCORES)
    assert objective.batch_counts(objective.prepare(batch, CPU)) == (CLIPS, CLIPS * LENGTH)


def test_the_picture_is_of_the_middle_frame_of_the_first_clip(batch, output):
    objective = DeblurringObjective(None, [], SCORES)
    (picture,) = objective.pictures(output, objective.prepare(batch, CPU)).values()
    shown = [batch.blur.numpy()[0, 1], images(output)[0, 1], batch.sharp.numpy()[0, 1]]
    for column, frame in enumerate(shown):
        # Frames of 16 pixels are shown thirty times enlarged.
        part = picture[LABEL_HEIGHT : LABEL_HEIGHT + 480 : 30, column * (480 + GAP) :: 30][:, :SIZE]
        np.testing.assert_array_equal(part, frame)


class Recorder(nn.Module):
    """Returns the blurry frames; keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[torch.Tensor, torch.Tensor | None]] = []

    def forward(self, blur: torch.Tensor, voxels: torch.Tensor | None) -> torch.Tensor:
        self.seen.append((blur, voxels))
        return blur


def test_the_model_is_given_frames_and_standardised_rates(batch):
    model = Recorder()
    statistics = VoxelStatistics(0.25, 0.5, 0)
    objective = DeblurringObjective(statistics, [], SCORES)
    objective.forward(model, objective.prepare(batch, CPU))
    ((blur, voxels),) = model.seen
    expected = prepare_batch(batch, statistics, "cpu")
    assert torch.equal(blur, expected.blur)
    assert torch.equal(voxels, expected.voxels)
    without = DeblurringObjective(None, [], SCORES)
    without.forward(model, without.prepare(batch, CPU))
    assert model.seen[1][1] is None


def test_a_teacher_is_given_the_spikes_of_the_clips_own_frames(batch):
    inputs: list[torch.Tensor] = []

    class Teacher(nn.Module):
        def forward(self, blur: torch.Tensor, voxels: torch.Tensor) -> torch.Tensor:
            inputs.append(voxels)
            return blur

    objective = DeblurringObjective(VoxelStatistics(0.2, 0.4, 1), [], SCORES, Teacher())
    clip = prepare_batch(batch, VoxelStatistics(0.2, 0.4, 1), CPU)
    taught = objective.add_targets(clip)
    assert taught.teacher_output is clip.blur
    assert clip.teacher_output is None
    assert clip.voxels is not None
    assert torch.equal(inputs[0], clip.voxels)
    clip.blur = clip.blur[:, 1:2]
    objective.add_targets(clip)
    assert torch.equal(inputs[1], clip.voxels[:, 1:2])
    # Validation restores without the teacher.
    objective.forward(lambda blur, voxels: blur, clip)
    assert len(inputs) == 2


def test_without_a_teacher_a_batch_stays_as_it_is(batch):
    objective = DeblurringObjective(None, [], SCORES)
    clip = objective.prepare(batch, CPU)
    assert objective.add_targets(clip) is clip


def test_metrics_of_motion_are_refused():
    metric_functions = {TOF: TOF.load(None, CPU)}
    with pytest.raises(ValueError, match="tof: expected metrics of single frames"):
        DeblurringObjective(None, [], metric_functions)
