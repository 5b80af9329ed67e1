"""Which code made a result: digests of the source files behind a program."""

from __future__ import annotations

from vrtspike.provenance.code import CodeDigest, code_digest, code_digests

__all__ = ["CodeDigest", "code_digest", "code_digests"]
