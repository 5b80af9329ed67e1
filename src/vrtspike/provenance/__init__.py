"""Which code and which settings made a result."""

from __future__ import annotations

from vrtspike.provenance.code import CodeDigest, code_digest, code_digests
from vrtspike.provenance.settings import flat_settings

__all__ = ["CodeDigest", "code_digest", "code_digests", "flat_settings"]
