"""What helps the network to learn from spikes: three experiments, and the table in docs/model.md.

- ``linear``: how well a linear regression finds the sharp grey frame from the voxels of 3 x 3
  sensor pixels and the blurry grey frame; what the voxels hold, apart from any network. Trained on
  the training sequences of the demo, PSNR on its test sequences at the sensor's size.
- ``fusion``: one fusion layer alone. Clips of five frames, spike features e that resemble those of
  the neighbouring frames (autoregressive, 0.9), features x of the frame that know half of e;
  wanted is x + A e of the own frame. The share of A e that stays unexplained after training.
- ``network``: the demo preset without flow, alignment and augmentation of thresholds, trained for
  so many steps with one change each; PSNR of the test sequences at full size.

The results go to ``benchmarks/results/learning.json``, part by part, and to ``docs/model.md``.

Examples:
    snakemake --cores 2 results/data/demo/k32/dataset.json
    python benchmarks/learning.py
    python benchmarks/learning.py --parts network --steps 200 --only full
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from generated_page import require_current
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler

from vrtspike import cli
from vrtspike.config.workflow import load_workflow
from vrtspike.deblurring.data.clips.clips import ClipDataset
from vrtspike.deblurring.data.clips.dataset import DatasetManifest, load_dataset
from vrtspike.deblurring.data.exposure import bin_edges, sharp_step
from vrtspike.deblurring.data.store.reading import open_store
from vrtspike.deblurring.evaluation.restore import restore_frames, tiling_for
from vrtspike.deblurring.evaluation.sources import StoredSequence
from vrtspike.deblurring.losses.charbonnier import charbonnier
from vrtspike.deblurring.metrics.psnr import psnr
from vrtspike.deblurring.models import spike_encoder
from vrtspike.deblurring.models.chunking import ChunkPolicy
from vrtspike.deblurring.models.layers import ClipConv
from vrtspike.deblurring.models.temporal_attention import TemporalCrossAttn
from vrtspike.deblurring.models.vrt_spike import VRTSpike
from vrtspike.deblurring.preset import build_task, build_trainable
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.videos import Videos
from vrtspike.files import atomic_write_text, read_json, write_json
from vrtspike.images import luma, shrink
from vrtspike.training.optimizers import build_optimizer, parameter_groups, trainable_groups
from vrtspike.training.schedules import Schedule

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "learning.json"
PAGE = ROOT / "docs" / "model.md"
BEGIN, END = "<!-- learning.py: begin -->", "<!-- learning.py: end -->"
PARTS = ("linear", "fusion", "network")

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
    middle, half = sharp_step(steps), bins // 2
    before = np.arange(half) * middle // half
    return np.concatenate([before, middle + np.arange(half + 1) * (steps - middle) // half])


def interval(spikes: Bits) -> NDArray[np.float64]:
    """One over the inter-spike interval around the sharp frame: (T, h, w) -> (1, h, w)."""
    middle = sharp_step(len(spikes))
    before, after = spikes[:middle][::-1], spikes[middle:]
    back = np.where(before.any(0), before.argmax(0) + 1, middle + 1)
    ahead = np.where(after.any(0), after.argmax(0), len(after))
    return (1.0 / (back + ahead))[None]


def short_windows(spikes: Bits) -> NDArray[np.float64]:
    """Rates of 4, 8 and 16 steps around the sharp frame: (T, h, w) -> (3, h, w)."""
    middle = sharp_step(len(spikes))
    return np.stack([spikes[middle - n : middle + n].mean(axis=0) for n in (2, 4, 8)])


def joined(*parts: Features) -> Features:
    """Several features together."""
    return lambda spikes: np.concatenate([part(spikes) for part in parts])


LINEAR: dict[str, Callable[[int], Features]] = {
    "16 equal bins": lambda steps: rates(equal_bins(steps, 16)),
    "32 equal bins": lambda steps: rates(equal_bins(steps, 32)),
    "32 bins about the sharp frame, even": lambda steps: rates(even_halves(steps, 32)),
    "**32 bins, narrow at the sharp frame**": lambda steps: rates(bin_edges(steps, 32)),
    "the same and rates of 4, 8, 16 steps": lambda steps: joined(
        rates(bin_edges(steps, 32)), short_windows
    ),
    "the same and the inter-spike interval": lambda steps: joined(
        rates(bin_edges(steps, 32)), interval
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
        store = open_store(entry.store)
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


# --- fusion: one layer alone ----------------------------------------------------------------------


def without_table(layer: TemporalCrossAttn) -> None:
    """Attention along time sees a set of frames."""
    layer.time.slopes.zero_()
    layer.time.correction.requires_grad_(False)


def without_direct(layer: TemporalCrossAttn) -> None:
    """The direct path stays at zero."""
    layer.direct.requires_grad_(False)


def normalised_direct(layer: TemporalCrossAttn) -> None:
    """The direct path sees normalised spikes."""
    channels = layer.norm_direct.normalized_shape[0]

    def normalise(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        x, spikes = inputs[0].split(channels, dim=-1)
        return (torch.cat((x, functional.layer_norm(spikes, (channels,))), dim=-1),)

    layer.direct.register_forward_pre_hook(normalise)


FUSIONS: dict[str, tuple[Callable[[TemporalCrossAttn], None], ...]] = {
    "attention alone": (without_table, without_direct),
    "and a table of time": (without_direct,),
    "and a direct path": (without_table,),
    "both, spikes normalised in the direct path": (normalised_direct,),
    "**both**": (),
}


def unexplained(changes: tuple[Callable[[TemporalCrossAttn], None], ...], steps: int) -> float:
    """Share of the signal that one fusion layer does not find after ``steps`` steps."""
    torch.manual_seed(0)
    channels, frames, clips = 32, 5, 256
    layer = TemporalCrossAttn(channels, 4, frames - 1, ChunkPolicy(), identity=True)
    for change in changes:
        change(layer)
    mix = torch.randn(channels, channels) / math.sqrt(channels)
    hint = torch.randn(channels, channels) / math.sqrt(channels)

    def batch() -> tuple[Tensor, Tensor, Tensor]:
        noise = torch.randn(frames, clips, channels)
        e = [noise[0]]
        for t in range(1, frames):
            e.append(0.9 * e[-1] + math.sqrt(1 - 0.9**2) * noise[t])
        spikes = torch.stack(e)
        x = 0.5 * spikes @ hint + torch.randn_like(spikes)
        return x, spikes, spikes @ mix

    trained = [p for p in layer.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-3)
    shape = (1, frames, clips, 1, channels)  # each clip is a pixel of one large clip
    for step in range(steps + 20):
        x, spikes, signal = batch()
        out = layer(x.view(shape), spikes.view(shape)).view_as(x)
        share = (out - x - signal).square().mean() / signal.square().mean()
        if step == steps:
            total = 0.0
        if step >= steps:  # twenty batches that it has not learned from
            total += share.item() / 20
            continue
        optimizer.zero_grad()
        share.backward()
        optimizer.step()
    return total


def fusion_part(steps: int) -> dict[str, float]:
    """Unexplained share of each kind of fusion."""
    found = {}
    for name, changes in FUSIONS.items():
        found[name] = unexplained(changes, steps)
        print(f"fusion, {name}: {found[name]:.3f}", flush=True)
    return found


# --- network: the demo preset with one change each ------------------------------------------------


def each_fusion(change: Callable[[TemporalCrossAttn], None]) -> Callable[[VRTSpike], None]:
    """A change of all fusion layers."""

    def apply(model: VRTSpike) -> None:
        for layer in model.fusion:
            assert isinstance(layer, TemporalCrossAttn)
            change(layer)

    return apply


def time_unknown(model: VRTSpike) -> None:
    """Neither attention along time knows the distance in time."""
    for layer in (*model.fusion, *model.spike_attention):
        layer.time.slopes.zero_()
        layer.time.correction.requires_grad_(False)


def default_start(model: VRTSpike) -> None:
    """The spike encoder starts as PyTorch starts convolutions."""
    for layer in model.spike_encoder.modules():
        if isinstance(layer, ClipConv):
            layer.reset_parameters()


def without_readout(model: VRTSpike) -> None:
    """Spikes reach the picture through the backbone only."""
    model.readout.requires_grad_(False)


@contextmanager
def equal_input() -> Iterator[None]:
    """The encoder sees the bins themselves and not their mean and their deviations."""

    def plain(voxels: Tensor) -> Tensor:
        return torch.cat((torch.zeros_like(voxels[..., :1]), voxels), dim=-1)

    with patch.object(spike_encoder, "_contrast", plain):
        yield


@contextmanager
def nothing_else() -> Iterator[None]:
    """No change of what is computed."""
    yield


@dataclass(frozen=True)
class Variant:
    """A network and its training."""

    changes: tuple[Callable[[VRTSpike], None], ...] = ()
    around: Callable[[], Any] = nothing_else
    settings: dict[str, str] = field(default_factory=dict)
    auxiliary: float = 0.0
    """Weight of a loss of the spike features against the grey sharp frame."""


# Flow and alignment cost half of the time and tell nothing of spikes; clips seen as by other
# sensors are harder to learn from.
GIVEN: dict[str, object] = {
    "MODEL.VRT.PA_FRAMES": 0,
    "TRAIN.FREEZE_FLOW_STEPS": "null",
    "DATA.THRESHOLD_AUGMENT": 0,
}
OLD_FUSION = (time_unknown, each_fusion(without_direct))
ONE_RATE = {"TRAIN.OPTIM.LR_FACTORS.BACKBONE": "1.0"}
NETWORKS: dict[str, Variant] = {
    "attention along time without a code of time": Variant(
        (*OLD_FUSION, default_start, without_readout), equal_input, ONE_RATE
    ),
    "+ table of time": Variant(
        (each_fusion(without_direct), default_start, without_readout), equal_input, ONE_RATE
    ),
    "+ direct path": Variant((default_start, without_readout), equal_input, ONE_RATE),
    "+ mean and contrast of the bins, He's gain": Variant(
        (without_readout,), nothing_else, ONE_RATE
    ),
    "+ readout": Variant((), nothing_else, ONE_RATE),
    "**+ backbone at a quarter of the rate: the demo**": Variant(),
    "the demo, other seed": Variant(settings={"SEED": "7"}),
    "the demo without the table of time": Variant((time_unknown,)),
    "the demo without the direct path": Variant((each_fusion(without_direct),)),
    "the demo without the readout": Variant((without_readout,)),
    "the demo without mean and contrast": Variant(around=equal_input),
    "the demo with PyTorch's start of the encoder": Variant((default_start,)),
    "the demo and an auxiliary loss": Variant(auxiliary=0.2),
    "an auxiliary loss and no readout": Variant((without_readout,), auxiliary=0.2),
    "the demo without spikes": Variant(settings={"MODEL.USE_SPIKE": "false"}),
    "the demo with shuffled spikes": Variant(settings={"MODEL.SPIKE_ORDER": "shuffled"}),
}


class GreyLoss(nn.Module):
    """Charbonnier distance of a grey frame, read from the finest spike features, to the sharp one.

    As the spike branch of SpkDeblurNet (Chen et al., NeurIPS 2023) has one, for training only.

    Args:
        model: whose finest spike features are watched.
    """

    def __init__(self, model: VRTSpike) -> None:
        super().__init__()
        attention = model.spike_attention[0]
        self.head = nn.Conv2d(model.vrt.embed_dims[0], 1, 3, padding=1)
        self.features: list[Tensor] = []
        attention.register_forward_hook(lambda _, __, out: self.features.append(out))

    def forward(self, sharp: Tensor) -> Tensor:
        """The loss of the last forward pass; sharp (B, T, 3, H, W) in [0, 1]."""
        features = self.features.pop().flatten(0, 1).permute(0, 3, 1, 2)
        grey = torch.einsum("btchw,c->bthw", sharp, sharp.new_tensor((0.299, 0.587, 0.114)))
        return charbonnier(self.head(features).view_as(grey), grey)


def demo_settings(overrides: Mapping[str, object]) -> Settings:
    """The demo preset with some keys set otherwise."""
    pairs = " ".join(f"{key}={value}" for key, value in overrides.items())
    return Videos(load_workflow([ROOT / "config" / "config.yaml"], {"SET": pairs})).preset("demo")


def train(variant: Variant, given: Mapping[str, object], dataset: DatasetManifest) -> float | None:
    """PSNR in dB of the test sequences after training a variant; None where it diverges."""
    settings = demo_settings({**given, **variant.settings})
    device = torch.device("cpu")
    torch.manual_seed(settings.SEED)
    model = build_trainable(settings)
    if isinstance(model, VRTSpike):
        for change in variant.changes:
            change(model)
    task = build_task(settings, dataset, device)
    total, rate = settings.TRAIN.MAX_STEPS or 1, settings.TRAIN.OPTIM.LR
    groups = parameter_groups(trainable_groups(model), rate, settings.TRAIN.OPTIM.LR_FACTORS)
    grey = GreyLoss(model) if variant.auxiliary and isinstance(model, VRTSpike) else None
    if grey is not None:
        groups.append({"params": list(grey.head.parameters()), "lr": rate})
    optimizer = build_optimizer(groups, settings.TRAIN.OPTIM)
    schedule = Schedule(optimizer, settings.TRAIN.SCHED, rate, total)
    clips = ClipDataset(dataset, settings.DATA.TRAIN_SPLIT, settings.DATA, seed=settings.SEED)
    order = RandomSampler(clips, replacement=True, num_samples=total)
    loader = DataLoader(clips, settings.TRAIN.BATCH_SIZE, sampler=order)
    for step, batch in enumerate(loader):
        clips.set_epoch(step)
        schedule.apply(step)
        work = task.prepare(batch, device)
        loss = torch.stack(list(task.losses(task.forward(model, work), work, step).values())).sum()
        if grey is not None:
            loss = loss + variant.auxiliary * grey(work.sharp)
        if not loss.isfinite():
            return None
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.TRAIN.MAX_GRAD_NORM or math.inf)
        optimizer.step()
    return test_psnr(model.eval(), settings, dataset, device)


def test_psnr(
    model: nn.Module, settings: Settings, dataset: DatasetManifest, device: torch.device
) -> float:
    """Mean PSNR in dB of all frames of the test split."""
    values = []
    for entry in dataset.split(settings.DATA.VAL_SPLIT):
        source = StoredSequence(open_store(entry.store))
        restored = restore_frames(
            model,
            source,
            dataset.statistics_for(settings.DATA) if settings.MODEL.USE_SPIKE else None,
            device,
            tiling_for(settings.TEST.TILE, settings.DATA.CLIP_LEN),
        )
        values += [psnr(frame, source.read_sharp(n)) for n, frame in enumerate(restored)]
    return statistics.fmean(values)


def blurry_psnr(dataset: DatasetManifest) -> float:
    """Mean PSNR in dB of the blurry frames of the test split."""
    values = []
    for entry in dataset.split("test"):
        source = StoredSequence(open_store(entry.store))
        blurry = source.read(slice(0, len(source.names))).blur
        values += [psnr(frame, source.read_sharp(n)) for n, frame in enumerate(blurry)]
    return statistics.fmean(values)


def network_part(
    dataset: DatasetManifest, steps: int, only: str | None, known: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """PSNR of the variants so far; those known for as many steps are kept unless asked for."""
    given = {**GIVEN, "TRAIN.MAX_STEPS": steps}
    values: dict[str, float | None] = dict(known["psnr"]) if known.get("steps") == steps else {}
    for name, variant in NETWORKS.items():
        if only is not None and only not in name:
            continue
        started = time.monotonic()
        with variant.around():
            values[name] = train(variant, given, dataset)
        seconds = time.monotonic() - started
        print(f"network, {name}: {figure(values[name], 2)} dB, {seconds:.0f} s", flush=True)
        yield {"steps": steps, "blurry": blurry_psnr(dataset), "psnr": dict(values)}


# --- the page -------------------------------------------------------------------------------------

HEADS = {
    "linear": ("voxels", "PSNR, dB"),
    "fusion": ("fusion layer alone", "unexplained"),
    "network": ("network", "PSNR, dB"),
}


def figure(value: float | None, digits: int) -> str:
    """A result as text."""
    return "diverged" if value is None else f"{value:.{digits}f}"


def table(head: tuple[str, str], rows: Mapping[str, float | None], digits: int) -> str:
    """Markdown of a few figures."""
    lines = [head, ("---", "---"), *((name, figure(value, digits)) for name, value in rows.items())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def section(results: Mapping[str, Any]) -> str:
    """The part of the page that this program writes."""
    network, machine = results["network"], results["machine"]

    def ordered(names: Iterable[str], rows: Mapping[str, Any]) -> dict[str, Any]:
        return {name: rows[name] for name in names if name in rows}

    linear = ordered(("blurry frame", *LINEAR), results["linear"])
    return "\n\n".join(
        (
            BEGIN,
            table(HEADS["linear"], linear, 2),
            table(HEADS["fusion"], ordered(FUSIONS, results["fusion"]), 3),
            table(HEADS["network"], ordered(NETWORKS, network["psnr"]), 2),
            f"{network['steps']} steps; the blurry frames have {network['blurry']:.2f} dB. "
            f"PyTorch {machine['torch']}, `python benchmarks/learning.py`.",
            END,
        )
    )


def page(results: Mapping[str, Any]) -> str:
    """docs/model.md with these results."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return before + section(results) + rest.split(END)[1]


def main() -> None:
    """Measure what is asked for, keep the results and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=cli.HelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--dataset",
        type=Path,
        default=Path("results/data/demo/k32/dataset.json"),
        help="the demo's",
    )
    parser.add_argument("--steps", type=int, default=100, help="of a network's training")
    parser.add_argument(
        "--fusion-steps", type=int, default=400, help="of a fusion layer's training"
    )
    parser.add_argument("--only", help="networks whose name has this in it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is outdated")
    arguments = parser.parse_args()
    results: dict[str, Any] = read_json(RESULTS) if RESULTS.is_file() else {}
    if arguments.check:
        require_current(PAGE, page(results), "learning.py")
        return
    torch.set_num_threads(arguments.threads)
    results["machine"] = {"torch": torch.__version__, "processor": platform.machine()}
    if "fusion" in arguments.parts:
        results["fusion"] = fusion_part(arguments.fusion_steps)
        write_json(RESULTS, results)
    if "linear" in arguments.parts:
        results["linear"] = linear_part(load_dataset(arguments.dataset))
        write_json(RESULTS, results)
    if "network" in arguments.parts:
        known = results.get("network", {})
        dataset = load_dataset(arguments.dataset)
        for found in network_part(dataset, arguments.steps, arguments.only, known):
            results["network"] = found
            write_json(RESULTS, results)
    atomic_write_text(PAGE, page(results))


if __name__ == "__main__":
    cli.run(main)
