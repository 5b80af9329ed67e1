"""VRT-Spike: video deblurring with spike cameras, from raw files to a report.

The names that the stub ``__init__.pyi`` lists are for programs and notebooks (``docs/api.md``), and
imported when they are used. Everything else is internal.
"""

from __future__ import annotations

import os

from vrtspike.lazy_names import attach_stub

__version__ = "0.2.0.dev0"

__all__, __getattr__, __dir__ = attach_stub(__name__, __file__)

# Threads that wait for others sleep instead of spin, unless the user chose otherwise: on busy cores
# a CPU training step took 4 to 7 times as long. PyTorch's own OpenMP spins for some microseconds
# first, which makes the short operations of a quiet machine up to a third faster. It looks at these
# variables once, when PyTorch is imported; every program imports this module before.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "2000")
