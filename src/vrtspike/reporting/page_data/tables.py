"""Rows of tables on pages."""

from __future__ import annotations

from typing import Any

TableRow = dict[str, Any]
"""A row of a table by column: texts, and numbers with six digits."""
