"""Programs of ``benchmarks/``, which pytest finds as modules, that read compiled kernels."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["test_*"]
