"""What a person reads of an advice."""

from __future__ import annotations

from collections.abc import Iterator

from vrtspike.deblurring.data_size import GB
from vrtspike.machine.advise import Advice, DataFound


def advice_lines(advice: Advice) -> list[str]:
    """What a person reads."""
    machine, gpu = advice.machine, advice.machine.gpu
    on = "no GPU" if gpu is None else f"{gpu.count} x {gpu.name} with {gpu.memory_gib:.0f} GiB"
    lines = [
        f"machine: {on}, {machine.cpus} CPUs, {machine.memory_gib:.0f} GiB of memory",
        f"speed:   {advice.speed.source}",
        f"disk:    {advice.free / GB:.0f} GB free for results",
    ]
    for name, data in advice.data.items():
        lines += _data_lines(name, data)
    if advice.fits:
        lines += ["", *_table(advice)]
    if advice.batches:
        lines += ["", "samples of a micro-step, and the learning rate by the square-root rule:"]
        lines += [f"  {name:<14}{found.text}" for name, found in advice.batches.items()]
    return [*lines, "", *_closing(advice)]


def _data_lines(name: str, data: DataFound) -> Iterator[str]:
    size = data.size
    parts = [f"{size.frames[s]} frames of {n} sequences in {s}" for s, n in size.sequences.items()]
    height, width = size.rgb_size
    if data.missing is not None:
        why = "is generated first" if data.dataset.kind != "raw" else "is not there"
        stands = "; the figures are those of GoPro" if data.dataset.kind == "raw" else ""
        yield f"data:    {name}: {data.dataset.root} {why}{stands}"
        if data.dataset.kind != "raw":
            return
    else:
        yield f"data:    {name}: {data.dataset.root}"
    yield f"         {', '.join(parts)}, {height} x {width}"
    if size.faults:
        yield f"         {len(size.faults)} with faults are left out (vrtspike doctor)"
    for bins, needed in data.store_bytes.items():
        yield (
            f"         stores of {bins} bins need {needed / GB:.1f} GB, "
            f"{data.there_bytes / GB:.1f} GB are there"
        )


def _table(advice: Advice) -> Iterator[str]:
    heads = ("GPU memory", "memory", "steps", "hours")
    yield f"{'preset':<14}" + "".join(f"{head:>12}" for head in heads) + "   fits"
    for fit in advice.fits:
        if fit.cost is None or fit.hours is None:
            yield f"{fit.name:<14}{'':>48}   no: {'; '.join(fit.reasons)}"
            continue
        hours = f"{fit.hours:.1f}" if fit.hours < 10 else f"{fit.hours:,.0f}"
        gpu = "-" if advice.machine.gpu is None else f"{fit.cost.gpu_gib:.1f} GiB"
        cells = (gpu, f"{fit.memory_gib:.1f} GiB", f"{fit.cost.steps:,}", hours)
        verdict = f"no: {'; '.join(fit.reasons)}" if fit.reasons else "yes"
        yield f"{fit.name:<14}" + "".join(f"{cell:>12}" for cell in cells) + f"   {verdict}"


def _closing(advice: Advice) -> Iterator[str]:
    if advice.fits:
        yield (
            "Memory and arithmetic of a clip are counted, its time on a GPU is estimated from them "
            "(docs/presets.md); validation is not included."
        )
    if advice.command is None:
        yield f"nothing to recommend: {advice.because}"
        return
    yield f"recommended: {advice.command}"
    yield f"because {advice.because}"
