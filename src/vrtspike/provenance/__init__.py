"""Which code made a result."""

from __future__ import annotations

from vrtspike.provenance.code import CodeDigest, code_digests, definition_digests

__all__ = ["CodeDigest", "code_digests", "definition_digests"]
