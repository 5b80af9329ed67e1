"""Batches of tiles: the input of a model that restores, in PyTorch or in an ONNX file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

InputArrays: TypeAlias = Mapping[str, NDArray[Any]]
"""Tiles of a clip as cameras give them: ``blur`` uint8 (B, T, H, W, 3), of 16-bit frames float32
from 0 to 255; with spikes also ``counts`` (B, T, K, h, w), ``bin_steps`` uint8 (B, T, K) and
``gain`` float32 (B,)."""

Compute: TypeAlias = Callable[[InputArrays], NDArray[np.float32]]
"""Function that restores a batch; returns float32 (B, T, 3, H, W)."""
