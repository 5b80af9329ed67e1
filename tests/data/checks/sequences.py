"""Sequences of a slow scene, their faults, and changes of their pictures."""

from __future__ import annotations

import re

import numpy as np

from tests.data.conftest import SEQUENCES
from tests.data.prepared import check
from vrtspike.data.simulation.photographs import read_photograph
from vrtspike.io.images import read_rgb, write_png

SEQUENCE, OTHER = SEQUENCES[:2]
"""The changed sequence, and another one."""


def slow_film(number, count):
    """Frames of 96 x 128 of a photograph that moves so slowly that neighbours look alike."""
    name = ("astronaut.png", "coffee.png")[number]
    scene = read_photograph("skimage", f"data/{name}").astype(np.uint8)[::2, ::2]
    return [np.ascontiguousarray(scene[40:136, i : i + 128]) for i in range(count)]


def faults(root, name=SEQUENCE):
    return check(root, name)["faults"]


def has_fault(root, pattern):
    """Return whether a fault of the sequence matches a pattern."""
    return any(re.search(pattern, fault) for fault in faults(root))


def recode(root, pattern, change):
    """Change all pictures of a glob pattern."""
    paths = sorted(root.glob(pattern))
    assert paths
    for path in paths:
        write_png(path, change(read_rgb(path)))
