"""From a configuration to VRT with a spike branch, or VRT alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrtspike.deblurring.models.chunking import ChunkPolicy
from vrtspike.deblurring.models.layers import start_at_zero
from vrtspike.deblurring.models.spike_encoder import check_time_lengths
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.vrt_spike import PlainVRT, VRTRestorer, VRTSpike
from vrtspike.deblurring.models.weights import load_spynet, load_vrt
from vrtspike.io.weights import read_weights

if TYPE_CHECKING:
    from vrtspike.deblurring.settings.model import ModelSettings, TemporalAttentionSettings


def build_vrt_spike(
    settings: ModelSettings, *, bins: int, clip_len: int, crop_size: int, pretrained: bool
) -> VRTRestorer:
    """Build a :class:`VRTSpike`, or a :class:`PlainVRT` where MODEL.USE_SPIKE is false.

    It starts from MODEL.VRT.PRETRAINED and MODEL.VRT.SPYNET where ``pretrained`` is set; for the
    other arguments and errors see :class:`~vrtspike.deblurring.models.restorer.Builder`.
    """
    vrt = _build_vrt(settings, clip_len, crop_size)
    # An untrained network returns its input: training starts at the blurry frame's PSNR.
    start_at_zero(vrt.conv_last)
    if pretrained:
        # The whole model first: weights of the flow given on their own win.
        if settings.VRT.PRETRAINED is not None:
            load_vrt(vrt, read_weights(settings.VRT.PRETRAINED), settings.VRT.PRETRAINED)
        if settings.VRT.SPYNET is not None:
            load_spynet(vrt, read_weights(settings.VRT.SPYNET), settings.VRT.SPYNET)
    if not settings.USE_SPIKE:
        return PlainVRT(vrt)
    model = VRTSpike(
        vrt,
        bins=bins,
        clip_len=clip_len,
        spike_heads=settings.SPIKE_TSA.HEADS,
        spike_chunks=_chunks(settings.SPIKE_TSA),
        fuse_heads=settings.FUSE.HEADS,
        fuse_chunks=_chunks(settings.FUSE),
        identity=settings.FUSE.INIT == "identity",
        direct=settings.FUSE.DIRECT,
        time_bias=(settings.SPIKE_TSA.TIME_BIAS, settings.FUSE.TIME_BIAS),
        checkpoint=settings.VRT.USE_CHECKPOINT_ATTN,
        shuffled=settings.SPIKE_ORDER == "shuffled",
    )
    check_time_lengths(model.spike_encoder, clip_len)
    return model


def _build_vrt(settings: ModelSettings, clip_len: int, crop_size: int) -> VRT:
    depths = settings.VRT_DEPTHS
    return VRT(
        img_size=(clip_len, crop_size, crop_size),
        window_size=settings.window,
        depths=depths,
        indep_reconsts=settings.VRT.INDEP_RECONSTS,
        embed_dims=settings.VRT.EMBED_DIMS,
        num_heads=(settings.VRT.NUM_HEADS,) * len(depths),
        mul_attn_ratio=settings.VRT.MUL_ATTN_RATIO,
        mlp_ratio=settings.VRT.MLP_RATIO,
        drop_path_rate=settings.VRT.DROP_PATH_RATE,
        pa_frames=settings.VRT.PA_FRAMES,
        deformable_groups=settings.VRT.DEFORMABLE_GROUPS,
        use_checkpoint_attn=settings.VRT.USE_CHECKPOINT_ATTN,
        use_checkpoint_ffn=settings.VRT.USE_CHECKPOINT_FFN,
        attention=settings.VRT.ATTENTION,
    )


def _chunks(settings: TemporalAttentionSettings) -> ChunkPolicy:
    return ChunkPolicy(
        adaptive=settings.ADAPTIVE_CHUNK,
        max_tokens=settings.MAX_BATCH_TOKENS,
        size=settings.CHUNK_SIZE,
    )
