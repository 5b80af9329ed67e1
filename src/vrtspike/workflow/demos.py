"""Demos: their presets, and the model that they show how to use."""

from __future__ import annotations

from pathlib import Path

DEMOS = {"demo": ["demo", "light_demo", "general_demo"], "sst_demo": ["sst_demo"]}
"""Presets of each demo. Of ``demo``, the last one is not trained: the bundled weights."""

_REUSED = {"demo": "light_demo"}
"""Preset whose run a demo shows how to use."""


def reuse_options(results: Path, demo: str) -> list[str]:
    """Return options that name the run which a demo shows how to use, if it shows one.

    >>> reuse_options(Path("results"), "demo"), reuse_options(Path("results"), "sst_demo")
    (['--run', 'results/train/light_demo'], [])
    """
    if demo not in _REUSED:
        return []
    return ["--run", str(results / "train" / _REUSED[demo])]
