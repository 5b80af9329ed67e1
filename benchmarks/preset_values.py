"""The presets' settings, as the benchmarks change them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from vrtspike.deblurring.models.ops.dispatch import VARIABLE
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.settings.schema import load_video_preset

REPOSITORY = Path(__file__).resolve().parent.parent
EXPLICIT = ("MODEL.VRT.ATTENTION=explicit", "MODEL.VRT.RECOMPUTE=none")
"""Attention by its readable definition, nothing of a layer recomputed."""


def load(name: str, overrides: Sequence[str] = ()) -> Settings:
    """A preset's settings.

    Args:
        name: of the preset.
        overrides: such as ``MODEL.VRT.ATTENTION=explicit``.
    """
    return load_video_preset(REPOSITORY / f"config/presets/{name}.yaml", overrides)


@contextmanager
def defined() -> Iterator[None]:
    """Every operation is computed by its reference, by none of our own kernels."""
    with mock.patch.dict(os.environ, {VARIABLE: "all"}):
        yield
