"""What helps the light model most for its cost: variants of SpikeNAFNet, each with several seeds.

The preset ``light_demo`` is trained as it is and changed, for as many steps as it says; measured on
the test sequences of the demo. A training takes two minutes of a core; what is known stays unless
``--only`` names it. The results go to ``benchmarks/results/light_variants.json``, run by run, and
to ``docs/model.md``.

Examples:
    snakemake --cores 2 results/data/demo/k32/dataset.json
    python benchmarks/light_variants.py
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from learning import CPU, PAGE, ROOT, SEEDS, preset_settings, restored_split, summary, trained
from measured_figures import experiment_options, markdown, require_current, with_part
from vrtspike.deblurring.data.clips.dataset import DatasetManifest, load_dataset
from vrtspike.deblurring.metrics.psnr import psnr
from vrtspike.deblurring.metrics.tof import flow_distance, optical_flow
from vrtspike.deblurring.models import spike_nafnet
from vrtspike.deblurring.models.spike_nafnet import SpikeNAFNet
from vrtspike.deblurring.preset import build_trainable
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.settings.model import NAFSettings
from vrtspike.io.files import atomic_write_text, read_json, write_json
from vrtspike.system import cli

RESULTS = ROOT / "benchmarks" / "results" / "light_variants.json"
PROGRAM = "light_variants.py"
SIDE = 128
"""Rows and columns of the frames on which the arithmetic of a frame is counted."""


class NeighboursFeatures(SpikeNAFNet):
    """Each scale sees the spike features of both neighbouring frames, too; 0 at a clip's ends."""

    def __init__(self, settings: NAFSettings, **arguments: Any) -> None:  # noqa: ANN401, as its parent's
        super().__init__(settings, **arguments)
        own = self.readout.in_channels
        for number, layer in enumerate(self.fusion):
            assert isinstance(layer, nn.Conv2d)
            self.fusion[number] = nn.Conv2d(layer.in_channels + 2 * own, layer.out_channels, 1)
        self.readout = nn.Conv2d(3 * own, 3, 3, padding=1)
        spike_nafnet.start_at_zero(self.readout)

    def _encode(self, blur: Tensor, voxels: Tensor | None, full: Sequence[int]) -> list[Tensor]:
        found = []
        for level in super()._encode(blur, voxels, full):
            clips = level.unflatten(0, blur.shape[:2])
            nothing = torch.zeros_like(clips[:, :1])
            before = torch.cat((nothing, clips[:, :-1]), dim=1)
            after = torch.cat((clips[:, 1:], nothing), dim=1)
            found.append(torch.cat((clips, before, after), dim=2).flatten(0, 1))
        return found


class SymmetricEncoding(SpikeNAFNet):
    """Spike features are the sum of those of the bins in time's order and of those reversed."""

    def _encode(self, blur: Tensor, voxels: Tensor | None, full: Sequence[int]) -> list[Tensor]:
        assert voxels is not None
        forward = super()._encode(blur, voxels, full)
        backward = super()._encode(blur, voxels.flip(1, 2), full)
        reversed_clips = (level.unflatten(0, blur.shape[:2]).flip(1) for level in backward)
        pairs = zip(forward, reversed_clips, strict=True)
        return [one + other.flatten(0, 1) for one, other in pairs]


class CrossModalFusion(nn.Module):
    """Fusion in which each modality weighs the other's channels by its own means over the frame.

    Args:
        frames: channels of the frames' features.
        spikes: channels of the spikes' features.
    """

    def __init__(self, frames: int, spikes: int) -> None:
        super().__init__()
        self.sizes = (frames, spikes)
        self.of_frames = nn.Conv2d(spikes, frames, 1)
        self.of_spikes = nn.Conv2d(frames, spikes, 1)
        self.join = nn.Conv2d(frames + spikes, frames, 1)

    def forward(self, both: Tensor) -> Tensor:
        """(N, frames + spikes, H, W) -> (N, frames, H, W)."""
        frames, spikes = both.split(self.sizes, dim=1)
        of_frames = self.of_frames(spikes.mean(dim=(2, 3), keepdim=True)).sigmoid()
        of_spikes = self.of_spikes(frames.mean(dim=(2, 3), keepdim=True)).sigmoid()
        fused: Tensor = self.join(
            torch.cat((2 * of_frames * frames, 2 * of_spikes * spikes), dim=1)
        )
        return fused


class CrossModalAttention(SpikeNAFNet):
    """The fusion of each scale is a :class:`CrossModalFusion`."""

    def __init__(self, settings: NAFSettings, **arguments: Any) -> None:  # noqa: ANN401, as its parent's
        super().__init__(settings, **arguments)
        spikes = self.readout.in_channels
        for number, layer in enumerate(self.fusion):
            assert isinstance(layer, nn.Conv2d)
            self.fusion[number] = CrossModalFusion(layer.out_channels, spikes)


@dataclass(frozen=True)
class Variant:
    """Keys that are set otherwise, and the class of the network."""

    settings: Mapping[str, object] = field(default_factory=dict)
    network: type[SpikeNAFNet] = SpikeNAFNet


ALONE = {"MODEL.NAF.NEIGHBOUR_BINS": 0}
VARIANTS: dict[str, Variant] = {
    "**light_demo**: 8 bins of either neighbour": Variant(),
    "no bins of neighbours": Variant(ALONE),
    "no bins, but features of neighbours": Variant(ALONE, NeighboursFeatures),
    "+ features of neighbours": Variant(network=NeighboursFeatures),
    "+ encoding symmetric in time": Variant(network=SymmetricEncoding),
    "+ channel attention between modalities": Variant(network=CrossModalAttention),
    "with shuffled spikes": Variant({"MODEL.SPIKE_ORDER": "shuffled"}),
    "without spikes": Variant({"MODEL.USE_SPIKE": "false"}),
}
CONTROLS = ("with shuffled spikes", "without spikes")
"""Variants that differ by more than any seed: the first seed is enough."""


def measure(variant: Variant, seed: int, dataset: DatasetManifest) -> dict[str, float]:
    """PSNR and tOF of the test sequences after training, and the arithmetic of a frame.

    Returns:
        ``psnr`` in dB, mean over all frames; ``tof`` in pixels, mean over all pairs of frames;
        ``gflop`` of the forward pass for a frame of ``SIDE`` x ``SIDE`` pixels in a clip of three.
    """
    settings = preset_settings("light_demo", {**variant.settings, "SEED": seed})
    with patch.object(spike_nafnet, "SpikeNAFNet", variant.network):
        model = trained(settings, dataset)
        assert model is not None, "it diverged"
        return {"gflop": gflop(settings), **scores(model, settings, dataset)}


def gflop(settings: Settings) -> float:
    """Multiplications and additions of a frame's forward pass, in 10^9."""
    frames = settings.DATA.CLIP_LEN
    blur = torch.zeros(1, frames, 3, SIDE, SIDE)
    bins = settings.DATA.NUM_VOXEL_BINS
    voxels = torch.zeros(1, frames, bins, SIDE // 2, SIDE // 2)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        build_trainable(settings)(blur, voxels if settings.MODEL.USE_SPIKE else None)
    return float(counter.get_total_flops() / frames / 1e9)


def scores(model: nn.Module, settings: Settings, dataset: DatasetManifest) -> dict[str, float]:
    """Mean PSNR over all frames of the test split, mean tOF over all pairs of neighbours."""
    values: list[float] = []
    distances: list[float] = []
    for pairs in restored_split(model, settings, dataset, CPU):
        values += [psnr(*pair) for pair in pairs]
        videos = zip(*pairs, strict=True)  # the restored one and the sharp one
        flows = [[optical_flow(*pair) for pair in pairwise(video)] for video in videos]
        distances += map(flow_distance, *flows)
    return {"psnr": statistics.fmean(values), "tof": statistics.fmean(distances)}


def section(runs: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The part of the page that this program writes."""
    rows = []
    for name in VARIANTS:
        if found := list(runs.get(name, {}).values()):
            rows.append(
                (
                    name,
                    *summary({seed: run["psnr"] for seed, run in runs[name].items()}),
                    f"{statistics.fmean(run['tof'] for run in found):.2f}",
                    f"{found[0]['gflop']:.2f}",
                )
            )
    header = ("network", "PSNR, dB, mean", "range of seeds", "tOF, px, mean", "GFLOP a frame")
    seeds = sorted({int(seed) for each in runs.values() for seed in each})
    return (
        f"{markdown(header, rows)}\n\nSeeds {', '.join(map(str, seeds))}; GFLOP of the forward "
        f"pass for {SIDE} x {SIDE} pixels. `python benchmarks/light_variants.py`."
    )


def main() -> None:
    """Measure what is missing, keep the results and write the page."""
    parser = experiment_options(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--only", help="train again the variants whose name has this in it")
    arguments = parser.parse_args()
    runs: dict[str, dict[str, dict[str, float]]] = read_json(RESULTS) if RESULTS.is_file() else {}
    if arguments.check:
        require_current(PAGE, with_part(PAGE, PROGRAM, section(runs)), PROGRAM)
        return
    torch.set_num_threads(arguments.threads)
    dataset = load_dataset(arguments.dataset)
    for seed, (name, variant) in itertools.product(arguments.seeds, VARIANTS.items()):
        known = runs.setdefault(name, {})
        is_known = str(seed) in known or (name in CONTROLS and known)
        if is_known if arguments.only is None else arguments.only not in name:
            continue
        started = time.monotonic()
        known[str(seed)] = measure(variant, seed, dataset)
        print(
            f"{name}, seed {seed}: {known[str(seed)]}, {time.monotonic() - started:.0f} s",
            flush=True,
        )
        write_json(RESULTS, runs)
    atomic_write_text(PAGE, with_part(PAGE, PROGRAM, section(runs)))


if __name__ == "__main__":
    cli.run(main)
