"""Templates of HTML pages and Markdown files."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, select_autoescape

TEMPLATES = Environment(
    loader=PackageLoader("vrtspike", "."),
    autoescape=select_autoescape(),
    trim_blocks=True,
    keep_trailing_newline=True,
)
"""Templates by their paths in this package; values in HTML are escaped."""
