"""What grows with sequences and GPUs: bytes, files, jobs, checkpoints, gradients, network.

Everything is computed from formats and from figures that are measured or counted elsewhere; nothing
is measured here. The tables of ``docs/growth.md`` are written by this script.

Example:
    python benchmarks/growth.py
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from generated_page import require_current

from vrtspike import cli
from vrtspike.config.workflow import load_workflow
from vrtspike.deblurring.costs import clip_cost
from vrtspike.deblurring.data.shares import share_count
from vrtspike.deblurring.data.store.layout import StoreLayout
from vrtspike.deblurring.data_size import GOPRO, DataSize
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.settings.workflow import ShareSettings
from vrtspike.deblurring.videos import Videos
from vrtspike.files import atomic_write_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "growth.md"

SEQUENCES = (33, 1_000, 10_000, 100_000)
GPUS = (1, 2, 8, 16, 64)
PRESETS = ("baseline", "low_memory", "fast", "compact", "reproduce")
GPU = "H100"

PNG_BYTES = {"blur": 922_179, "sharp": 1_142_916}
"""Of a 720 x 1280 frame: means of six and of two real samples."""
SPIKE_BYTES = 88 * 360 * 640 // 8
"""Of an exposure of 88 steps, one bit each."""
FLOAT = 4
LINKS = {"200 Gb/s InfiniBand": 200e9 / 8, "25 Gb/s Ethernet": 25e9 / 8}
"""Bytes a second that a node sends, and as many that it receives."""
SAMPLE_BYTES = 5.1e6
"""Read for a clip of 5 frames, 256 x 256 (docs/data-at-scale.md)."""
STAT_S = {"local disk": 7e-6, "network file system": 300e-6}
"""Of one question for size and date: measured (docs/data-at-scale.md), and assumed."""
BUILD_S = 0.165
"""Of a core for a frame of a store (docs/data-at-scale.md)."""
CORES = 8
"""Of a job on a cluster (workflow/profiles)."""
TOGETHER = 0.9
"""Share of their speed that several GPUs keep: an assumption, as in ``vrtspike advise``."""

GB = 1e9


@dataclass(frozen=True)
class Data:
    """A data set of so many sequences like GoPro's.

    Attributes:
        sequences: how many.
        each: frames of one.
    """

    sequences: int
    each: int

    @property
    def frames(self) -> int:
        """Of all sequences."""
        return self.sequences * self.each

    @property
    def raw_bytes(self) -> int:
        """Of blurry and sharp pictures and spikes."""
        return self.frames * (sum(PNG_BYTES.values()) + SPIKE_BYTES)

    @property
    def raw_files(self) -> int:
        """Three for each frame."""
        return 3 * self.frames

    @property
    def store_bytes(self) -> int:
        """Of all stores, as ``vrtspike advise`` estimates them."""
        size = DataSize({}, {"all": self.frames}, (720, 1280), (360, 640), 88, {})
        return size.store_bytes(bins=32)

    @property
    def store_files(self) -> int:
        """Shards of every array, its description, that of the group, and two manifests."""
        names = tuple(str(number) for number in range(self.each))
        layout = StoreLayout(names, (88,) * self.each, (720, 1280), (360, 640), 32)
        shards = math.ceil(self.each / layout.shard_frames)
        return self.sequences * (len(layout.shapes) * (shards + 1) + 1 + 2)


def gopro_like(sequences: int) -> Data:
    """Sequences of GoPro's mean length."""
    return Data(sequences, round(sum(GOPRO.frames.values()) / sum(GOPRO.sequences.values())))


@dataclass(frozen=True)
class Training:
    """A preset on some GPUs.

    Attributes:
        name: of the preset.
        settings: of it.
        parameters: of its model.
        clip_s: seconds of a GPU for a clip.
    """

    name: str
    settings: Settings
    parameters: int
    clip_s: float

    @classmethod
    def of(cls, name: str, settings: Settings) -> Training:
        """From the counted table."""
        cost = clip_cost(name, settings)
        assert cost is not None, name
        return cls(name, settings, cost.parameters, cost.ms[GPU] / 1e3)

    @property
    def micro_steps(self) -> int:
        """That one GPU takes for an optimiser step."""
        return self.settings.TRAIN.GRADIENT_ACCUMULATION_STEPS

    @property
    def batch(self) -> int:
        """Clips of an optimiser step on one GPU."""
        return self.settings.TRAIN.BATCH_SIZE * self.micro_steps

    @property
    def step_s(self) -> float:
        """Seconds of a step in which a GPU takes all its micro-steps."""
        return self.batch * self.clip_s

    @property
    def checkpoint_bytes(self) -> int:
        """Weights, moments of 32 or 8 bits, and the moving average where there is one."""
        moment = 1 if "8bit" in self.settings.TRAIN.OPTIM.TYPE else FLOAT
        average = FLOAT if self.settings.TRAIN.EMA else 0
        return self.parameters * (FLOAT + 2 * moment + average)

    def exchange_bytes(self, gpus: int) -> float:
        """That each of them sends for a step: a ring's share of the gradients, in 32 bits."""
        return ring_bytes(self.parameters * FLOAT, gpus)


def ring_bytes(size: float, members: int) -> float:
    """What each member of a ring sends until all have the sum of what each began with.

    >>> ring_bytes(100, 1), ring_bytes(100, 2), ring_bytes(100, 4)
    (0.0, 100.0, 150.0)
    """
    return 2 * (members - 1) / members * size


def presets() -> list[Training]:
    """The presets of the page."""
    folder = {"PRESET_DIR": str(ROOT / "config/presets")}
    videos = Videos(load_workflow([ROOT / "config" / "config.yaml"], folder))
    return [Training.of(name, videos.preset(name)) for name in PRESETS]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of a page."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def size(nbytes: float) -> str:
    """Bytes for a person.

    >>> size(9.2e6), size(1.49e10), size(8.95e13)
    ('9.2 MB', '15 GB', '90 TB')
    """
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if nbytes >= factor:
            return f"{short(nbytes / factor)} {unit}"
    return f"{short(nbytes / 1e3)} kB"


def span(seconds: float) -> str:
    """Seconds for a person.

    >>> span(0.0021), span(12), span(8787), span(3e7)
    ('2.1 ms', '12 s', '2.4 h', '347 days')
    """
    for unit, factor in (("days", 86400 * 3), ("h", 3600), ("min", 120), ("s", 1)):
        if seconds >= factor:
            whole = {"days": 86400, "min": 60}.get(unit, factor)
            return f"{short(seconds / whole)} {unit}"
    return f"{short(seconds * 1e3)} ms"


def short(value: float) -> str:
    """Two digits that count, more only before the point.

    >>> short(0.123), short(1.26), short(12.6), short(12345.6)
    ('0.12', '1.3', '13', '12,346')
    """
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def data_table() -> str:
    """Bytes and files by the number of sequences."""
    rows = []
    for data in map(gopro_like, SEQUENCES):
        waits = [span(data.raw_files * each) for each in STAT_S.values()]
        rows.append(
            [
                f"{data.sequences:,}",
                f"{data.frames:,}",
                *(size(data.raw_bytes), size(data.store_bytes)),
                *(f"{data.raw_files:,}", f"{data.store_files:,}"),
                *waits,
            ]
        )
    waiting = [f"asking for all, {place}" for place in STAT_S]
    return table(
        ["sequences", "frames", "raw", "stores", "raw files", "files of stores", *waiting], rows
    )


def jobs_table() -> str:
    """Jobs from raw data to a trained preset, and what a share of one is."""
    bounds = ShareSettings()
    rows = []
    for data in map(gopro_like, SEQUENCES):
        shares = share_count(data.sequences, data.raw_bytes, bounds.SEQUENCES, bounds.GB * GB)
        each = math.ceil(data.sequences / shares)
        rows.append(
            [
                f"{data.sequences:,}",
                f"{2 * data.sequences:,}",
                f"{2 * shares:,}",
                str(each),
                size(data.raw_bytes / shares),
                size(data.store_bytes / shares),
                span(data.each * each * BUILD_S / CORES),
            ]
        )
    heads = ["sequences", "one job for each", "jobs for shares", "sequences of a share", "reads"]
    return table([*heads, "writes", f"voxelize on {CORES} cores"], rows)


def training_table() -> str:
    """Speed, network and hours of ``baseline`` by the number of GPUs."""
    training = presets()[0]
    epochs = training.settings.TRAIN.EPOCHS
    train = GOPRO.frames["train"] - GOPRO.sequences["train"] * (training.settings.DATA.CLIP_LEN - 1)
    large = gopro_like(SEQUENCES[-1])
    rows = []
    for gpus in GPUS:
        speed = gpus / training.clip_s * (TOGETHER if gpus > 1 else 1)
        clips = large.frames - large.sequences * (training.settings.DATA.CLIP_LEN - 1)
        rows.append(
            [
                str(gpus),
                short(speed),
                f"{size(speed * SAMPLE_BYTES)}/s",
                str(training.batch * gpus),
                span(epochs * train / speed),
                span(clips / speed),
            ]
        )
    heads = ["GPUs", "clips/s", "read", "batch", f"{epochs} epochs of GoPro"]
    return table([*heads, f"1 epoch of {SEQUENCES[-1]:,} sequences"], rows)


def exchange_table() -> str:
    """Gradients of a step against its arithmetic."""
    rows = []
    for training in presets():
        times = [training.exchange_bytes(GPUS[-1]) / rate for rate in LINKS.values()]
        shares = [f"{span(each)}, {short(100 * each / training.step_s)} %" for each in times]
        single = times[-1] / (training.step_s / training.micro_steps)
        rows.append(
            [
                f"`{training.name}`",
                f"{training.parameters / 1e6:.1f} M",
                size(training.parameters * FLOAT),
                size(training.exchange_bytes(2)),
                size(training.exchange_bytes(GPUS[-1])),
                span(training.step_s),
                *shares,
                f"{short(100 * single)} %",
            ]
        )
    heads = ["preset", "parameters", "gradients", "sent by each of 2", f"of {GPUS[-1]}", "step"]
    last = "25 Gb/s, one micro-step a step"
    return table([*heads, *LINKS, last], rows)


def checkpoint_table() -> str:
    """Checkpoints of each preset."""
    rows = []
    for training in presets():
        train = training.settings.TRAIN
        between = train.SAVE_EVERY_STEPS * training.step_s
        nbytes = training.checkpoint_bytes
        rows.append(
            [
                f"`{training.name}`",
                size(nbytes),
                f"{train.SAVE_EVERY_STEPS:,} steps",
                span(between),
                f"{size(nbytes / between)}/s",
                size((train.KEEP_LAST + 1) * nbytes),
            ]
        )
    return table(["preset", "one", "every", "that is", "on the average", "kept"], rows)


TABLES = {
    "data": data_table,
    "jobs": jobs_table,
    "training": training_table,
    "exchange": exchange_table,
    "checkpoints": checkpoint_table,
}


def filled(page: str, tables: Mapping[str, str]) -> str:
    """A page with its tables written anew, each between two comments of its name."""
    for name, text in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, _, rest = page.partition(begin)
        _, found, tail = rest.partition(end)
        assert found, f"no place for the table {name}"
        page = f"{head}{begin}{text}\n{end}{tail}"
    return page


def main() -> None:
    """Write the tables of the page, or look whether they are today's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=cli.HelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is outdated")
    arguments = parser.parse_args()
    text = filled(PAGE.read_text(encoding="utf-8"), {name: make() for name, make in TABLES.items()})
    if arguments.check:
        require_current(PAGE, text, "growth.py")
    else:
        atomic_write_text(PAGE, text)


if __name__ == "__main__":
    cli.run(main)
