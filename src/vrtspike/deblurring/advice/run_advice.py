"""Advice on a run of deblurring: missing weights, faster steps, less memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vrtspike.analysis.diagnosis.task_advice import TaskAdvice
from vrtspike.config.run_schema import UNLIMITED
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.model import TemporalAttentionSettings
from vrtspike.runs.named_models import missing_pretrained_advice

CHUNK_TOKENS = 65536
"""Tokens of a chunk of the temporal attention; larger chunks are not faster."""


class DeblurringAdvice(TaskAdvice):
    """Advice on a run of deblurring.

    Args:
        settings: settings of the run.
    """

    def __init__(self, settings: DeblurringSettings) -> None:
        self._settings = settings

    @property
    def missing_weights(self) -> Mapping[str, str]:
        """Other weights to start from, if those that MODEL.PRETRAINED names are missing."""
        start = self._settings.MODEL.PRETRAINED
        if start is None:
            return {}
        advice = missing_pretrained_advice(start)
        if Path(start).is_file():
            advice += "; VRT's published weights belong to MODEL.VRT.PRETRAINED"
        return {"MODEL.PRETRAINED": advice}

    @property
    def first_steps(self) -> tuple[str, ...]:
        """Overrides that keep the crops of the first phase and a fixed flow."""
        train = self._settings.TRAIN
        overrides = []
        if train.PROGRESSIVE:
            first = {"CROP_SIZE": train.PROGRESSIVE[0].CROP_SIZE, "EPOCHS": UNLIMITED}
            overrides.append(f"TRAIN.PROGRESSIVE=[{first}]")
        if train.FREEZE_FLOW_STEPS:
            overrides.append(f"TRAIN.FREEZE_FLOW_STEPS={UNLIMITED}")
        return tuple(overrides)

    @property
    def recompute_keys(self) -> tuple[str, ...]:
        """Keys of the network that are on."""
        keys = self._settings.MODEL.network.recompute_keys
        return tuple(key for key in keys if self._settings.value(key))

    @property
    def smaller_model(self) -> str:
        """Changes of VRT's depth, windows or crops; those of any task for other networks."""
        depth = self._settings.MODEL.network.depth_key
        if depth is None:
            return super().smaller_model
        return (
            f"fewer blocks ({depth}) in the slowest stage, windows of 7 or 6 pixels "
            "(MODEL.WINDOW_SIZE) or smaller crops (DATA.CROP_SIZE), which change the result"
        )

    def faster_loading(self, *, has_memory: bool) -> dict[str, Any]:
        """Return keys for stored voxel grids, and for a cache if memory is free."""
        data = self._settings.DATA
        keys: dict[str, Any] = {}
        if self._settings.MODEL.USE_SPIKE and not data.USE_PRECOMPUTED_VOXELS:
            keys["DATA.USE_PRECOMPUTED_VOXELS"] = True
        if has_memory and not data.USE_RAM_CACHE:
            keys["DATA.USE_RAM_CACHE"] = True
        return keys

    def faster_section(self, section: str) -> dict[str, Any]:
        """Return the key for larger chunks of a temporal attention."""
        model = self._settings.MODEL
        if "fusion" in section:
            return _larger_chunks("MODEL.FUSE", model.FUSE)
        if "spike_attention" in section:
            return _larger_chunks("MODEL.SPIKE_TSA", model.SPIKE_TSA)
        return {}


def _larger_chunks(name: str, attention: TemporalAttentionSettings) -> dict[str, Any]:
    """Return the key for larger chunks of a temporal attention, if these are faster."""
    if attention.ADAPTIVE_CHUNK and attention.MAX_BATCH_TOKENS < CHUNK_TOKENS:
        return {f"{name}.MAX_BATCH_TOKENS": CHUNK_TOKENS}
    return {}
