"""What a result was made with: its recipe, kept in it, tells whether it still holds.

Like :mod:`vrtspike.deblurring.data.manifests` it does without array libraries, because the workflow
asks while it plans.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import vrtspike
from vrtspike.files import json_digest
from vrtspike.provenance import code_digests


def ingest_recipe(blur_dir: str, layout: str, spike_size: tuple[int, int] | None) -> str:
    """What ingest manifests are made with, besides raw files."""
    size = list(spike_size) if spike_size else None
    return recipe(
        "deblurring/data/gate/ingest.py", blur_dir=blur_dir, layout=layout, spike_size=size
    )


def store_recipe(bins: int) -> str:
    """What stores are made with, besides raw files and their manifests."""
    return recipe("deblurring/data/store/build.py", bins=bins)


def recipe(module: str, **ingredients: Any) -> str:  # noqa: ANN401 - JSON values
    """A digest of the code behind a module of this package, and of what it is given.

    Args:
        module: its file, ``deblurring/data/gate/ingest.py``.
        ingredients: JSON values.

    Returns:
        64 hexadecimal digits; comments and the layout of code do not count.
    """
    code = [str(digest) for digest in code_digests(Path(vrtspike.__file__).parent / module)]
    return json_digest({"code": code, **ingredients})
