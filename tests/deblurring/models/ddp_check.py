"""Two processes with a clip each against one with both; run by ``torchrun``."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from vrtspike.deblurring.models.layers import DropPath
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.vrt_spike import VRTSpike


def build() -> VRTSpike:
    torch.manual_seed(0)
    vrt = VRT(
        img_size=(3, 16, 16),
        window_size=(2, 4, 4),
        depths=(2, 1, 1, 1, 1, 1, 2, 2),
        indep_reconsts=(),
        embed_dims=(8,) * 8,
        num_heads=(2,) * 8,
        drop_path_rate=0.6,
        deformable_groups=2,
        use_checkpoint_attn=True,
        use_checkpoint_ffn=True,
    )
    return VRTSpike(vrt, bins=4, checkpoint=True)


def drop_alike(model: nn.Module, samples: slice) -> None:
    """Draw for both clips and take one's own, so that a process leaves out what another keeps."""
    generator = torch.Generator().manual_seed(2)
    for layer in model.modules():
        if isinstance(layer, DropPath):
            layer.draw = partial(draw, generator, layer.rate, samples)  # type: ignore[method-assign]


def draw(generator: torch.Generator, rate: float, own: slice, _: int) -> Tensor:
    return ((torch.rand(2, generator=generator) > rate) / (1 - rate))[own]


def loss(restored: Tensor) -> Tensor:
    return (restored - 0.5).square().mean()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    own, replica = build(), DistributedDataParallel(build())
    drop_alike(own, slice(2))
    drop_alike(replica, slice(rank, rank + 1))
    torch.manual_seed(1)
    blur, voxels = torch.rand(2, 3, 3, 16, 16), torch.randn(2, 3, 4, 16, 16)
    # Twice: a parameter without a gradient in the first step shows in the second.
    for _ in range(2):
        own.zero_grad()
        replica.zero_grad()
        loss(own(blur, voxels)).backward()
        loss(replica(blur[rank : rank + 1], voxels[rank : rank + 1])).backward()
    for (name, a), b in zip(own.named_parameters(), replica.parameters(), strict=True):
        assert a.grad is not None, name
        assert b.grad is not None, name
        assert (a.grad - b.grad).norm() <= 1e-3 * a.grad.norm() + 1e-7, name
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
