"""Pages that are written from measured figures, and whether they still show these."""

from __future__ import annotations

from pathlib import Path


def require_current(page: Path, text: str, script: str) -> None:
    """End with status 1 if a page is not what its figures make of it.

    Args:
        page: the file.
        text: what it should hold.
        script: under ``benchmarks/``, that writes it.
    """
    if page.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{page} is outdated; run: python benchmarks/{script}")
