"""What helps the network to learn from spikes: two experiments, and the tables in docs/model.md.

- ``linear``: how well a linear regression finds the sharp grey frame from the voxels of 3 x 3
  sensor pixels and the blurry grey frame; what the voxels hold, apart from any network. Trained on
  the training sequences of the demo, PSNR on its test sequences at the sensor's size.
- ``network``: the demo preset without flow, alignment and augmentation of thresholds, trained with
  several seeds, as it is and changed; PSNR of the test sequences at full size. A run takes half an
  hour of a core; what is known stays unless ``--only`` names it.

The results go to ``benchmarks/results/learning.json``, run by run, and to ``docs/model.md``.

Examples:
    snakemake --cores 2 results/data/demo/k32/dataset.json
    python benchmarks/learning.py
    python benchmarks/learning.py --parts network --seeds 7 --only shuffled
"""

from __future__ import annotations

import itertools
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler

from measured_figures import experiment_options, markdown, require_current, with_part
from vrtspike.config.workflow import load_workflow
from vrtspike.deblurring.data.bins import bin_edges
from vrtspike.deblurring.data.clips.clips import ClipDataset
from vrtspike.deblurring.data.clips.dataset import DatasetManifest, load_dataset
from vrtspike.deblurring.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.datasets import DeblurringWorkflow
from vrtspike.deblurring.evaluation.restore import restore_frames, torch_compute
from vrtspike.deblurring.evaluation.sources import sharp_frame, stored_sequence
from vrtspike.deblurring.evaluation.tiling import tiling_for
from vrtspike.deblurring.metrics.psnr import psnr
from vrtspike.deblurring.models import spike_encoder
from vrtspike.deblurring.preset import build_task, build_trainable, rate_factors
from vrtspike.deblurring.rgb_images import Image
from vrtspike.deblurring.settings import Settings
from vrtspike.io.files import atomic_write_text, read_json, write_json
from vrtspike.io.images import luma, shrink
from vrtspike.system import cli
from vrtspike.training.optimizers import (
    Schedule,
    build_optimizer,
    parameter_groups,
    trainable_groups,
)

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "learning.json"
PAGE = ROOT / "docs" / "model.md"
PARTS = ("linear", "network")
CPU = torch.device("cpu")
SEEDS = (0, 7, 11)

Bits = NDArray[np.uint8]
Features = Callable[[Bits], NDArray[np.float64]]


# --- linear: what voxels hold ---------------------------------------------------------------------


def rates(edges: NDArray[np.int64]) -> Features:
    """Spike rate of each bin: (T, h, w) -> (K, h, w)."""

    def of(spikes: Bits) -> NDArray[np.float64]:
        total = np.concatenate([np.zeros_like(spikes[:1], np.int64), np.cumsum(spikes, 0)])
        return np.diff(total[edges], axis=0) / np.diff(edges)[:, None, None]

    return of


def equal_bins(steps: int, bins: int) -> NDArray[np.int64]:
    """bin(t) = floor(t K / T), which knows nothing of the sharp frame."""
    return -(-np.arange(bins + 1) * steps // bins)


def even_halves(steps: int, bins: int) -> NDArray[np.int64]:
    """About the sharp frame, each half divided evenly."""
    middle, half = int(spk_gopro_exposure(steps).sharp), bins // 2
    before = np.arange(half) * middle // half
    return np.concatenate([before, middle + np.arange(half + 1) * (steps - middle) // half])


def interval(spikes: Bits) -> NDArray[np.float64]:
    """One over the inter-spike interval around the sharp frame: (T, h, w) -> (1, h, w)."""
    middle = int(spk_gopro_exposure(len(spikes)).sharp)
    before, after = spikes[:middle][::-1], spikes[middle:]
    back = np.where(before.any(0), before.argmax(0) + 1, middle + 1)
    ahead = np.where(after.any(0), after.argmax(0), len(after))
    return (1.0 / (back + ahead))[None]


def short_windows(spikes: Bits) -> NDArray[np.float64]:
    """Rates of 4, 8 and 16 steps around the sharp frame: (T, h, w) -> (3, h, w)."""
    middle = int(spk_gopro_exposure(len(spikes)).sharp)
    return np.stack([spikes[middle - n : middle + n].mean(axis=0) for n in (2, 4, 8)])


def joined(*parts: Features) -> Features:
    """Several features together."""
    return lambda spikes: np.concatenate([part(spikes) for part in parts])


LINEAR: dict[str, Callable[[int], Features]] = {
    "16 equal bins": lambda steps: rates(equal_bins(steps, 16)),
    "32 equal bins": lambda steps: rates(equal_bins(steps, 32)),
    "32 bins about the sharp frame, even": lambda steps: rates(even_halves(steps, 32)),
    "**32 bins, narrow at the sharp frame**": lambda steps: rates(
        bin_edges(spk_gopro_exposure(steps), 32)
    ),
    "the same and rates of 4, 8, 16 steps": lambda steps: joined(
        rates(bin_edges(spk_gopro_exposure(steps), 32)), short_windows
    ),
    "the same and the inter-spike interval": lambda steps: joined(
        rates(bin_edges(spk_gopro_exposure(steps), 32)), interval
    ),
}


@dataclass
class Pixels:
    """Neighbourhoods of sensor pixels and what a linear regression shall find there."""

    inputs: NDArray[np.float64]
    wanted: NDArray[np.float64]


def pixels(dataset: DatasetManifest, split: str, features: Callable[[int], Features]) -> Pixels:
    """All pixels of a split: 3 x 3 neighbours of every feature, and sharp minus blurry grey."""
    inputs, wanted = [], []
    for entry in dataset.split(split):
        store = Store(entry.store)
        assert store.gain is not None, "the demo has spikes"
        assert store.layout.spike_size is not None
        gain, (height, width), everything = store.gain, store.layout.spike_size, slice(None)
        for number, steps in enumerate(store.layout.spike_frames):
            frame = (slice(number, number + 1), everything, everything)
            bits = store.read("bits", *frame)[0, :steps]
            spikes = np.unpackbits(bits, axis=-1, bitorder="little")[..., :width]
            blur, sharp = (
                shrink(luma(store.read(kind, *frame)[0]), height, width) / 255.0
                for kind in ("blur", "sharp")
            )
            rate = features(steps)(spikes)
            seen = np.concatenate([gain * rate, blur[None]])
            padded = functional.pad(torch.from_numpy(seen)[None], (1, 1, 1, 1), mode="replicate")
            near = functional.unfold(padded, 3)[0].numpy().T
            inputs.append(np.concatenate([near, np.ones((len(near), 1))], axis=1))
            wanted.append((sharp - blur).ravel())
    return Pixels(np.concatenate(inputs), np.concatenate(wanted))


def linear_part(dataset: DatasetManifest) -> dict[str, float]:
    """PSNR in dB of the linear regression from each kind of voxels."""
    found = {}
    for name, features in LINEAR.items():
        train, test = (pixels(dataset, split, features) for split in ("train", "test"))
        ridge = 1e-3 * np.eye(train.inputs.shape[1])
        weights = np.linalg.solve(
            train.inputs.T @ train.inputs + ridge, train.inputs.T @ train.wanted
        )
        error = test.wanted - test.inputs @ weights
        found["blurry frame"] = -10 * math.log10(np.mean(test.wanted**2))
        found[name] = -10 * math.log10(np.mean(error**2))
        print(f"linear, {name}: {found[name]:.2f} dB", flush=True)
    return found


# --- network: the demo preset, changed ------------------------------------------------------------


@contextmanager
def equal_input() -> Iterator[None]:
    """The encoder sees the bins themselves and not their mean and their deviations."""

    def plain(voxels: Tensor) -> Tensor:
        return torch.cat((torch.zeros_like(voxels[..., :1]), voxels), dim=-1)

    with patch.object(spike_encoder, "_mean_and_deviations", plain):
        yield


@dataclass(frozen=True)
class Variant:
    """A network and its training."""

    settings: Mapping[str, str] = field(default_factory=dict)
    around: Callable[[], AbstractContextManager[None]] = nullcontext


# Flow and alignment cost half of the time and tell nothing of spikes; clips seen as by other
# sensors are harder to learn from.
GIVEN: dict[str, object] = {
    "MODEL.VRT.PA_FRAMES": 0,
    "TRAIN.FREEZE_FLOW_STEPS": "null",
    "DATA.THRESHOLD_AUGMENT": 0,
}
NETWORKS: dict[str, Variant] = {
    "**the network**": Variant(),
    "the network without mean and contrast": Variant(around=equal_input),
    "the network with shuffled spikes": Variant({"MODEL.SPIKE_ORDER": "shuffled"}),
    "without spikes": Variant({"MODEL.USE_SPIKE": "false"}),
}


def preset_settings(name: str, overrides: Mapping[str, object]) -> Settings:
    """A preset with some keys set otherwise."""
    pairs = " ".join(f"{key}={value}" for key, value in overrides.items())
    return DeblurringWorkflow(
        load_workflow([ROOT / "config" / "config.yaml"], {"SET": pairs})
    ).preset(name)


def train(variant: Variant, given: Mapping[str, object], dataset: DatasetManifest) -> float | None:
    """PSNR in dB of the test sequences after training a variant; None where it diverges."""
    settings = preset_settings("demo", {**given, **variant.settings})
    model = trained(settings, dataset)
    return None if model is None else test_psnr(model, settings, dataset, CPU)


def trained(settings: Settings, dataset: DatasetManifest) -> nn.Module | None:
    """The model of a preset after its steps; None where it diverges."""
    torch.manual_seed(settings.SEED)
    model = build_trainable(settings)
    task = build_task(settings, dataset, CPU)
    total, rate = settings.TRAIN.MAX_STEPS or 1, settings.TRAIN.OPTIM.LR
    groups = parameter_groups(trainable_groups(model), rate, rate_factors(settings.TRAIN))
    optimizer = build_optimizer(groups, settings.TRAIN.OPTIM)
    schedule = Schedule(optimizer, settings.TRAIN.SCHED, rate, total)
    clips = ClipDataset(dataset, settings.DATA.TRAIN_SPLIT, settings.DATA, seed=settings.SEED)
    size = settings.TRAIN.BATCH_SIZE
    order = RandomSampler(clips, replacement=True, num_samples=total * size)
    for step, batch in enumerate(DataLoader(clips, size, sampler=order)):
        clips.set_epoch(step)
        schedule.apply(step)
        work = task.prepare(batch, CPU)
        loss = torch.stack(list(task.losses(task.forward(model, work), work, step).values())).sum()
        if not loss.isfinite():
            return None
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.TRAIN.MAX_GRAD_NORM or math.inf)
        optimizer.step()
    return model.eval()


def test_psnr(
    model: nn.Module, settings: Settings, dataset: DatasetManifest, device: torch.device
) -> float:
    """Mean PSNR in dB of all frames of the test split."""
    pairs = restored_split(model, settings, dataset, device)
    return statistics.fmean(psnr(*pair) for sequence in pairs for pair in sequence)


def restored_split(
    model: nn.Module, settings: Settings, dataset: DatasetManifest, device: torch.device
) -> Iterator[list[tuple[Image, Image]]]:
    """The frames of each test sequence, restored and sharp, both uint8 (H, W, 3)."""
    known = dataset.statistics_for(settings.DATA) if settings.MODEL.USE_SPIKE else None
    for entry in dataset.split(settings.DATA.VAL_SPLIT):
        store = Store(entry.store)
        source = stored_sequence(store)
        restored = restore_frames(
            torch_compute(model, known, device),
            source,
            tiling_for(settings.TEST.TILE, settings.DATA.CLIP_LEN),
        )
        yield [(frame, sharp_frame(store, number)) for number, frame in enumerate(restored)]


def blurry_psnr(dataset: DatasetManifest) -> float:
    """Mean PSNR in dB of the blurry frames of the test split."""
    values = []
    for entry in dataset.split("test"):
        store = Store(entry.store)
        source = stored_sequence(store)
        blurry = source.read(slice(0, len(source.names))).blur
        values += [psnr(frame, sharp_frame(store, n)) for n, frame in enumerate(blurry)]
    return statistics.fmean(values)


Values = dict[str, dict[str, float | None]]
"""By network and by seed."""


def network_part(
    dataset: DatasetManifest, steps: int, seeds: Sequence[int], only: str | None, known: Values
) -> Iterator[Values]:
    """PSNR of the variants so far, a run more each time; ``known`` is kept, see ``--only``."""
    values = {name: dict(runs) for name, runs in known.items()}
    for seed, (name, variant) in itertools.product(seeds, NETWORKS.items()):
        runs = values.setdefault(name, {})
        is_wanted = str(seed) not in runs if only is None else only in name
        if not is_wanted:
            continue
        started = time.monotonic()
        with variant.around():
            runs[str(seed)] = train(
                variant, {**GIVEN, "TRAIN.MAX_STEPS": steps, "SEED": seed}, dataset
            )
        seconds = time.monotonic() - started
        print(f"network, {name}, seed {seed}: {runs[str(seed)]} dB, {seconds:.0f} s", flush=True)
        yield values


# --- the page -------------------------------------------------------------------------------------


def summary(runs: Mapping[str, float | None]) -> tuple[str, str]:
    """Mean over the seeds, and the lowest and highest of them."""
    found = [value for value in runs.values() if value is not None]
    diverged = f"{len(runs) - len(found)} diverged" if len(found) < len(runs) else ""
    if not found:
        return diverged, "-"
    spread = f"{min(found):.2f} to {max(found):.2f}" if len(found) > 1 else "one seed"
    return f"{statistics.fmean(found):.2f}", ", ".join(filter(None, (spread, diverged)))


def section(results: Mapping[str, Any]) -> str:
    """The part of the page that this program writes."""
    linear, network, machine = results["linear"], results["network"], results["machine"]
    names = ("blurry frame", *LINEAR)
    voxels = [(name, f"{linear[name]:.2f}") for name in names if name in linear]
    psnr = network["psnr"]
    networks = [(name, *summary(psnr[name])) for name in NETWORKS if psnr.get(name)]
    seeds = sorted({int(seed) for runs in psnr.values() for seed in runs})
    return "\n\n".join(
        (
            markdown(("voxels", "PSNR, dB"), voxels),
            markdown(("network", "PSNR, dB, mean", "range of seeds"), networks),
            f"{network['steps']} steps; seeds {', '.join(map(str, seeds))}; the blurry frames have "
            f"{network['blurry']:.2f} dB. PyTorch {machine['torch']}, "
            "`python benchmarks/learning.py`.",
        )
    )


def page(results: Mapping[str, Any]) -> str:
    """docs/model.md with these results."""
    return with_part(PAGE, "learning.py", section(results))


def main() -> None:
    """Measure what is asked for, keep the results and write the page."""
    parser = experiment_options(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--steps", type=int, default=300, help="of a network's training")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of the networks")
    parser.add_argument("--only", help="train again the networks whose name has this in it")
    arguments = parser.parse_args()
    results: dict[str, Any] = read_json(RESULTS) if RESULTS.is_file() else {}
    if arguments.check:
        require_current(PAGE, page(results), "learning.py")
        return
    torch.set_num_threads(arguments.threads)
    results["machine"] = {"torch": torch.__version__, "processor": platform.machine()}
    if "linear" in arguments.parts:
        results["linear"] = linear_part(load_dataset(arguments.dataset))
        write_json(RESULTS, results)
    if "network" in arguments.parts:
        steps, before = arguments.steps, results.get("network", {})
        known = before["psnr"] if before.get("steps") == steps else {}
        dataset = load_dataset(arguments.dataset)
        results["network"] = {"steps": steps, "blurry": blurry_psnr(dataset), "psnr": known}
        for found in network_part(dataset, steps, arguments.seeds, arguments.only, known):
            results["network"]["psnr"] = found
            write_json(RESULTS, results)
    atomic_write_text(PAGE, page(results))


if __name__ == "__main__":
    cli.run(main)
