"""Which code, settings and files made a result."""

from __future__ import annotations

from vrtspike.provenance.code import CodeDigest, code_digest, code_digests
from vrtspike.provenance.folders import folder_version
from vrtspike.provenance.settings import flat_settings

__all__ = ["CodeDigest", "code_digest", "code_digests", "flat_settings", "folder_version"]
