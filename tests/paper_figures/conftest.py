"""Results in memory and on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.helpers.small_run import SmallRun, write_light_run
from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.evaluation.evaluate import evaluate_run
from vrtspike.paper_figures.recorded_spikes import RecordedSpikes
from vrtspike.paper_figures.results import Cost, ModelResult, RestoredSequence
from vrtspike.paper_figures.run_results import RunRestorer
from vrtspike.paper_figures.writing import FigureRequest, FigureWriter
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.published import read_published

FRAMES = ["000001", "000002", "000003"]
SIZE = (60, 100)


def no_progress(title: str) -> contextlib.nullcontext:
    return contextlib.nullcontext(lambda done, total: None)


def decibels(image: np.ndarray, sharp: np.ndarray) -> float:
    error = ((image.astype(float) - sharp.astype(float)) ** 2).mean()
    return float(10 * np.log10(255**2 / error))


@dataclass(frozen=True)
class SceneSpikes(RecordedSpikes):
    """Spikes of an exposure with a given motion."""

    length: float

    def motion(self) -> float:
        return self.length


class SceneSequence(RestoredSequence):
    """A sequence in memory: frames (T, H, W, 3)."""

    def __init__(
        self,
        name: str,
        blurry: np.ndarray,
        sharp: np.ndarray,
        restored: np.ndarray,
        motion: Sequence[float],
    ) -> None:
        self.name = name
        self.frames = FRAMES
        self.has_recorded_spikes = bool(motion)
        self.images = {"blurry": blurry, "sharp": sharp, "restored": restored}
        self.motion = motion

    def blurry(self, frame: str) -> np.ndarray:
        return self.images["blurry"][FRAMES.index(frame)]

    def sharp(self, frame: str) -> np.ndarray:
        return self.images["sharp"][FRAMES.index(frame)]

    def restored(self, frames: Sequence[str]) -> Iterator[np.ndarray]:
        for frame in frames:
            yield self.images["restored"][FRAMES.index(frame)]

    def spikes(self, frame: str) -> np.ndarray:
        return self.sharp(frame)[::2, ::2, 0]

    def recorded(self, frame: str) -> RecordedSpikes:
        spikes = PackedSpikes.pack(np.zeros((8, 4, 4), np.uint8))
        length = self.motion[FRAMES.index(frame)]
        return SceneSpikes(spikes, Exposure(0, 8, 4), Fraction(1), "scene", length)


class Scene:
    """Sequences ``a`` and ``b`` of random frames, with models that err by given amounts."""

    def __init__(self) -> None:
        random = np.random.default_rng(7)
        shape = (2, len(FRAMES), *SIZE, 3)
        self.sharp = random.integers(60, 190, shape, dtype=np.uint8)
        self.blurry = self.sharp + np.uint8(20)
        self.motion: Sequence[float] = ()

    def frame(self, images: np.ndarray, sequence: str, name: str) -> np.ndarray:
        return images["ab".index(sequence), FRAMES.index(name)]

    def clip(self, sequence: str, restored: np.ndarray) -> RestoredSequence:
        index = "ab".index(sequence)
        return SceneSequence(
            sequence, self.blurry[index], self.sharp[index], restored[index], self.motion
        )

    def result(self, label: str, restored: np.ndarray, **values: object) -> ModelResult:
        rows = [
            {
                "sequence": sequence,
                "frame": name,
                "psnr_blur": decibels(
                    self.frame(self.blurry, sequence, name), self.frame(self.sharp, sequence, name)
                ),
                "psnr": decibels(
                    self.frame(restored, sequence, name), self.frame(self.sharp, sequence, name)
                ),
            }
            for sequence in "ab"
            for name in FRAMES
        ]
        defaults = {"frame_psnr": pd.DataFrame(rows)}
        return ModelResult(
            label,
            f"results/{label}",
            {sequence: self.clip(sequence, restored) for sequence in "ab"},
            **{**defaults, **values},
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def models(scene: Scene) -> list[ModelResult]:
    """Two models: ``good`` errs by 4 everywhere, ``bad`` by 40 more in a square of b/000002."""
    good = scene.sharp + np.uint8(4)
    bad = scene.sharp + np.uint8(5)
    bad[1, 1, 24:48, 40:90] += np.uint8(40)
    cost = Cost(30.0, 2e6, 0.5, "cpu", "made", "own")
    return [scene.result("good", good, cost=cost), scene.result("bad", bad)]


@pytest.fixture
def write(tmp_path: Path):
    """Write figures of results; gives the folder and the printed lines."""

    def run(models: list[ModelResult], **options: object) -> tuple[Path, list[str]]:
        lines: list[str] = []
        request = FigureRequest(tmp_path / "figures", **options)
        FigureWriter(models, request, no_progress, lines.append).write()
        return request.output, lines

    return run


@pytest.fixture(scope="session")
def restorer() -> RunRestorer:
    return RunRestorer("cpu", no_progress)


@pytest.fixture(scope="session")
def evaluated(small_run: SmallRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two evaluated runs: ``results/train`` and ``results/evaluate`` of ``one`` and ``two``."""
    results = tmp_path_factory.mktemp("evaluated")
    for name in ("one", "two"):
        train = results / "train" / name
        write_light_run(small_run, train, use_spike=name == "one")
        job = EvaluationJob(
            train / "weights.safetensors",
            read_published(train).with_overrides(["TEST.METRICS=[psnr]"]),
            small_run.dataset,
            results / "evaluate" / name,
            torch.device("cpu"),
        )
        evaluate_run(job)
    return results
