"""Conditions of the symptoms in ``advice.yaml``: the observation in a run, and proposed keys.

Each takes a run and the limits of its symptom, and returns an observation or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vrtspike.analysis.figures import RunFigures
from vrtspike.config.run_schema import RunSettings

Severity = Literal["error", "warning", "hint"]
Keys = dict[str, Any]
Limits = Mapping[str, float]

WARNING_SHARE = 0.05
"""Share of a run's time; findings that could save less are hints."""
MAX_PREFETCH = 8
MEMORY_FOR_CACHE_PERCENT = 70.0
"""Used system memory up to which a larger cache is proposed."""
CACHE_OF_MEMORY = 0.5
"""Largest proposed share of a machine's memory for a cache."""
GPU_MEMORY_USABLE = 0.90
CHUNK_TOKENS = 65536


class Run:
    """Figures and settings of a run.

    Attributes:
        gpu_peak: GPU memory at the peak, in GiB; 0 if unknown.
        gpu_total: of the GPU; 0 without one.
    """

    def __init__(self, figures: RunFigures, settings: RunSettings) -> None:
        self.settings, self.train, self.loader = settings, settings.TRAIN, settings.DATALOADER
        self.speed, self.health, self.memory = figures.speed, figures.health, figures.memory
        self.processes = figures.processes
        self.gpu_peak = (self.memory.gpu_peak_mb or 0.0) / 1024
        self.gpu_total = (self.memory.gpu_total_mb or 0.0) / 1024

    @property
    def has_loss_scale(self) -> bool:
        """Whether it trains in float16."""
        return self.train.PRECISION in ("16-mixed", "mixed")

    @property
    def last_resort(self) -> str:
        """The end of advice on lost losses."""
        return "" if self.train.PRECISION == "32" else ", then TRAIN.PRECISION: '32'"

    @property
    def smaller_model(self) -> str:
        """Changes that make the network cheaper and change the result."""
        depth = self.settings.value("MODEL.depth_key")
        has_crops = self.settings.value("DATA.CROP_SIZE") is not None
        crops = " or smaller crops (DATA.CROP_SIZE), which change" if has_crops else ""
        if depth is None:
            return f"a smaller model{crops or ', which changes'} the result"
        return (
            f"fewer blocks ({depth}) in the slowest stage, windows of 7 or 6 pixels "
            f"(MODEL.WINDOW_SIZE){crops or ', which change'} the result"
        )

    @property
    def recomputation(self) -> list[str]:
        """Settings that store activations, the one that saves least memory first."""
        return [f"{key}=false" for key in self.settings.recompute_keys]


@dataclass(frozen=True)
class Observation:
    """The result of a condition that holds.

    Attributes:
        weight: affected share of the run's time (0 to 1).
        values: for the texts of ``advice.yaml``, by name; these may use the run, too.
        keys: dotted configuration keys and their proposed values.
        gain: share of the run's time that can be saved.
        severity: replaces that of the table or of the gain.
        change: name of the text if the table has several.
        effect: likewise.
    """

    weight: float
    values: Mapping[str, Any] = field(default_factory=dict)
    keys: Keys = field(default_factory=dict)
    gain: float | None = None
    severity: Severity | None = None
    change: str | None = None
    effect: str | None = None


def not_finite(run: Run, limit: Limits) -> Observation | None:
    """A loss that is not a number."""
    if run.health.losses_not_finite == 0:
        return None
    return Observation(1.0, keys=_more_stable(run))


def exploding_gradient(run: Run, limit: Limits) -> Observation | None:
    """A gradient norm far above the median."""
    median, largest = run.health.gradient_norm_median, run.health.gradient_norm_max
    if median is None or largest is None or largest <= limit["times"] * median:
        return None
    harmed = run.train.MAX_GRAD_NORM is None or run.health.losses_not_finite > 0
    severity: Severity | None = "error" if harmed else None
    return Observation(0.5, {"times": largest / median}, _more_stable(run), severity=severity)


def vanishing_gradient(run: Run, limit: Limits) -> Observation | None:
    """A gradient norm that has fallen to nearly zero."""
    first, last = run.health.first_gradient_norms, run.health.last_gradient_norms
    if first is None or last is None or last >= limit["ratio"] * first:
        return None
    return Observation(0.5, keys={"TRAIN.PRECISION": "bf16-mixed"} if run.has_loss_scale else {})


def _more_stable(run: Run) -> Keys:
    keys: Keys = {}
    if run.has_loss_scale:
        keys["TRAIN.PRECISION"] = "bf16-mixed"
        keys["TRAIN.AMP_INIT_SCALE"] = min(run.train.AMP_INIT_SCALE, 1024.0)
    norm = run.train.MAX_GRAD_NORM
    return keys | {"TRAIN.MAX_GRAD_NORM": 1.0 if norm is None else norm / 2}


def stuck_loss(run: Run, limit: Limits) -> Observation | None:
    """A loss that does not fall."""
    first, last = run.health.first_losses, run.health.last_losses
    if first is None or last is None or last <= limit["ratio"] * first:
        return None
    look = "spikes" if run.settings.value("MODEL.USE_SPIKE") else "samples"
    if run.settings.value("MODEL.VRT.PRETRAINED") is not None:
        return Observation(0.0, severity="hint", change=look)
    return Observation(1.0, keys={"TRAIN.OPTIM.LR": run.train.OPTIM.LR / 2}, change=look)


def full_memory(run: Run, limit: Limits) -> Observation | None:
    """System memory nearly full."""
    used, own = run.memory.system_percent, run.memory.process_mb
    if used is None or used <= limit["percent"]:
        return None
    this_run = "" if own is None else f"; this run with its workers: {own / 1024:.1f} GiB"
    values, keys = {"this_run": this_run}, _fewer_workers(run)
    if not uses_cache(run.settings):
        return Observation(used / 100, values, keys, effect="workers")
    keys = {"DATA.CACHE_SIZE_GB": run.settings.value("DATA.CACHE_SIZE_GB") / 2} | keys
    return Observation(used / 100, values, keys, effect="cache")


def _workers(run: Run) -> tuple[str, int | str]:
    """The key that decides the number of workers, and its value."""
    if run.loader.TRAIN_WORKERS != "auto":
        return "DATALOADER.TRAIN_WORKERS", run.loader.TRAIN_WORKERS
    return "DATALOADER.TOTAL_WORKERS", run.loader.TOTAL_WORKERS


def _fewer_workers(run: Run) -> Keys:
    key, workers = _workers(run)
    keys: Keys = {}
    if workers == "auto":
        keys[key] = "cpu*0.4"
    elif isinstance(workers, int) and workers > 1:
        keys[key] = workers // 2
    if run.loader.TRAIN_PREFETCH_FACTOR > 2:
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = run.loader.TRAIN_PREFETCH_FACTOR // 2
    return keys


def growing_memory(run: Run, limit: Limits) -> Observation | None:
    """A run whose memory grows."""
    growth, own = run.memory.growth_mb, run.memory.process_mb
    if growth is None or own is None or growth <= max(limit["mb"], limit["share"] * own):
        return None
    keys = {"DATALOADER.PERSISTENT_WORKERS": False} if run.loader.PERSISTENT_WORKERS else {}
    return Observation(growth / own, keys=keys)


def data_wait(run: Run, limit: Limits) -> Observation | None:
    """Steps that wait for data."""
    wait, share = run.speed.data_ms, run.speed.data_share
    if not wait or not share:
        return None
    if share < limit["least"] or (wait <= limit["ms"] and share <= limit["share"]):
        return None
    return Observation(share, keys=_faster_data(run), gain=share)


def _faster_data(run: Run) -> Keys:
    """Keys that make data loading faster and are not set yet."""
    loader, settings = run.loader, run.settings
    keys: Keys = {}
    key, workers = _workers(run)
    if workers == "auto" or isinstance(workers, int):
        keys[key] = "cpu*1.0" if workers == "auto" else "auto"
    if loader.TRAIN_PREFETCH_FACTOR < MAX_PREFETCH:
        twice = min(MAX_PREFETCH, 2 * loader.TRAIN_PREFETCH_FACTOR)
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = twice
    off = {
        "DATALOADER.PERSISTENT_WORKERS": not loader.PERSISTENT_WORKERS,
        "DATALOADER.PIN_MEMORY": run.memory.has_gpu and not loader.PIN_MEMORY,
        "DATA.USE_PRECOMPUTED_VOXELS": settings.value("MODEL.USE_SPIKE")
        and not settings.value("DATA.USE_PRECOMPUTED_VOXELS"),
        "DATA.USE_RAM_CACHE": settings.value("DATA.USE_RAM_CACHE") is False and _has_memory(run),
    }
    return keys | {key: True for key, is_off in off.items() if is_off}


def cold_cache(run: Run, limit: Limits) -> Observation | None:
    """A cache that mostly misses."""
    rate, share = run.memory.cache_hit_rate, run.speed.data_share
    if rate is None or rate >= limit["rate"]:
        return None
    if not uses_cache(run.settings) or run.memory.cache_is_full is False:
        return None  # while a cache is being filled, misses are normal
    if share is not None and share < limit["least"]:
        return None
    size = _larger_cache(run)
    keys = {} if size is None else {"DATA.CACHE_SIZE_GB": size}
    stake = (share or 0.0) * (1 - rate)
    return Observation(stake, keys=keys, gain=stake)


def uses_cache(settings: RunSettings) -> bool:
    """Whether a run reads its data through a cache."""
    if not settings.value("DATA.USE_RAM_CACHE"):
        return False
    return bool(settings.value("DATA.CACHE_SIZE_GB") > 0)


def _larger_cache(run: Run) -> float | None:
    """Twice the cache's size, within the limit; None if it cannot be larger."""
    size, total = run.settings.value("DATA.CACHE_SIZE_GB"), run.memory.system_total_gb
    most = 2 * size if total is None else min(2 * size, CACHE_OF_MEMORY * total)
    return round(most, 1) if _has_memory(run) and most > 1.1 * size else None


def _has_memory(run: Run) -> bool:
    used = run.memory.system_percent
    return used is None or used < MEMORY_FOR_CACHE_PERCENT


def idle_gpu(run: Run, limit: Limits) -> Observation | None:
    """Low GPU utilisation."""
    busy = run.memory.gpu_utilisation
    if busy is None or busy >= limit["percent"]:
        return None
    gain = 1 - busy / limit["target"]
    if (run.speed.data_share or 0.0) > WARNING_SHARE:
        return Observation(1 - busy / 100, gain=gain, change="data")
    keys: Keys = {} if run.train.COMPILE_MODEL else {"TRAIN.COMPILE_MODEL": True}
    return Observation(1 - busy / 100, keys=keys, gain=gain)


def slow_forward(run: Run, limit: Limits) -> Observation | None:
    """A forward pass over the limit."""
    forward, part = run.speed.forward_ms, run.speed.slowest_section
    if forward is None or forward <= limit["ms"]:
        return None
    slowest, keys = "", _faster_arithmetic(run)
    if part is not None:
        slowest = f"; most of it in {part[0]}, {part[1]:.0f} ms ({part[1] / forward:.0%})"
        keys |= _larger_chunks(part[0], run)
    share = run.speed.step_parts.get("forward", 1.0)
    severity: Severity | None = None if keys else "hint"
    return Observation(share, {"slowest": slowest}, keys, gain=share, severity=severity)


def _faster_arithmetic(run: Run) -> Keys:
    """Half precision and compiled blocks, on a GPU that has neither."""
    keys: Keys = {}
    if run.memory.has_gpu and run.train.PRECISION == "32":
        keys["TRAIN.PRECISION"] = "bf16-mixed"
    if run.memory.has_gpu and not run.train.COMPILE_MODEL:
        keys["TRAIN.COMPILE_MODEL"] = True
    return keys


def _larger_chunks(section: str, run: Run) -> Keys:
    """Larger chunks for the temporal attention, if that is the slowest part."""
    for part, name in (("fusion", "MODEL.FUSE"), ("spike_attention", "MODEL.SPIKE_TSA")):
        chunks = run.settings.value(name)
        if not chunks or part not in section or not chunks.ADAPTIVE_CHUNK:
            continue
        if chunks.MAX_BATCH_TOKENS < CHUNK_TOKENS:
            return {f"{name}.MAX_BATCH_TOKENS": CHUNK_TOKENS}
    return {}


def low_throughput(run: Run, limit: Limits) -> Observation | None:
    """Low throughput, with advice on the largest part of a step."""
    rate, parts = run.speed.samples_per_second, run.speed.step_parts
    if rate is None or rate >= limit["rate"]:
        return None
    if not parts:
        values = {"what": "the parts of a step were not timed"}
        return Observation(1.0, values, severity="hint", change="unknown", effect="unknown")
    part, share = max(parts.items(), key=lambda each: each[1])
    values = {"part": part, "what": f"{part} takes {share:.0%} of a step"}
    if part == "backward" and run.settings.recompute_keys:
        return _less_recomputation(run, share, values)
    change = part if part in ("data", "optimizer", "forward", "backward") else "other"
    # What helps against a wait for data, its own symptom proposes.
    return Observation(share, values, gain=share, severity="hint", change=change, effect="part")


def _less_recomputation(run: Run, share: float, values: Mapping[str, Any]) -> Observation:
    """Less recomputation in the backward pass, if memory allows."""
    # If it was not timed: recomputation is at most another forward pass.
    gain = run.speed.recomputation_share
    gain = run.speed.step_parts.get("forward") if gain is None else gain
    used = run.gpu_peak / (run.gpu_total or 1.0)
    is_full = used > GPU_MEMORY_USABLE
    return Observation(
        share,
        {**values, "order": ", then ".join(run.recomputation), "used": used},
        {} if is_full else {run.settings.recompute_keys[0]: False},
        gain=share if gain is None else gain,
        severity="hint" if is_full else None,
        change="full" if is_full else "recompute",
        effect="part" if gain is None else "gain",
    )


def gpu_headroom(run: Run, limit: Limits) -> Observation | None:
    """Unused GPU memory, for larger batches or less recomputation."""
    peak, total, batch = run.gpu_peak, run.gpu_total, run.train.BATCH_SIZE
    if not peak or not total or peak >= total * (1 - limit["share"]):
        return None
    free, sample = GPU_MEMORY_USABLE * total - peak, (run.memory.gpu_activations_mb or 0.0) / 1024
    sample /= batch
    more = int(free // sample) if sample else 0
    keys = _larger_batch(run, most=batch + more) if more >= 1 else {}
    values = {
        "unused": 1 - peak / total,
        "free": free,
        "sample": sample,
        "batch": keys.get("TRAIN.BATCH_SIZE"),
        "recompute": "".join(f"; or recompute less ({key})" for key in run.recomputation[:1]),
    }
    return Observation(free / total, values, keys)


def _larger_batch(run: Run, most: int) -> Keys:
    """Batches of up to ``most`` samples, with accumulation or a scaled learning rate."""
    train = run.train
    step = train.BATCH_SIZE * train.GRADIENT_ACCUMULATION_STEPS
    equal = max(size for size in range(1, most + 1) if step % size == 0)
    if equal > train.BATCH_SIZE:
        # The same samples per optimiser step, in fewer micro-steps.
        return {"TRAIN.BATCH_SIZE": equal, "TRAIN.GRADIENT_ACCUMULATION_STEPS": step // equal}
    keys: Keys = {"TRAIN.BATCH_SIZE": most}
    if train.SCALE_LR == "none":
        keys |= {"TRAIN.SCALE_LR": "sqrt", "TRAIN.BASE_BATCH_SIZE": step * run.processes}
    return keys
