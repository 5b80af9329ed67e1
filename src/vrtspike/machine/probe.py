"""Short measurements: how fast this machine computes a training step, or moves memory."""

from __future__ import annotations

import time

_COPY_BYTES = 2**30
_REPEATS = 5
_REACHED = 0.83
"""Share of the data sheet's bandwidth that a copy reaches (``benchmarks/gpus.py``)."""


def cpu_tflops() -> float:
    """TFLOP/s of a training step of a small network on all CPUs of this process; about 5 s.

    The network is that of the preset ``demo``; the fastest of a few steps counts, since other
    programs may be at work.
    """
    import torch

    from vrtspike.cpus import available_cpus
    from vrtspike.deblurring import costs
    from vrtspike.deblurring.models import build_model
    from vrtspike.deblurring.settings.model import ModelSettings

    row = costs.table()["presets"]["demo"]
    frames, side = row["clip"][0], row["clip"][1]
    threads = torch.get_num_threads()
    torch.set_num_threads(available_cpus())
    model = build_model(
        ModelSettings.model_validate(row["settings"]),
        bins=row["bins"],
        clip_len=frames,
        crop_size=side,
        pretrained=False,
    )
    clip = torch.rand(1, frames, 3, side, side)
    voxels = torch.randn(1, frames, row["bins"], side, side)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        model(clip, voxels).square().mean().backward()
        times.append(time.perf_counter() - start)
    torch.set_num_threads(threads)
    return float(row["tflop"] / min(times))


def gpu_bandwidth() -> float:
    """Bytes a second of this machine's first GPU, as a data sheet would give them."""
    import torch

    source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * _COPY_BYTES / best / _REACHED
