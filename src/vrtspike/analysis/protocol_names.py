"""Names of protocols of measurement that tables treat specially."""

from __future__ import annotations

from typing import Final

OWN_PROTOCOL: Final = "own"
"""The default protocol; names of columns omit it."""
