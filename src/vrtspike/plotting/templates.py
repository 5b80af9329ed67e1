"""Templates of HTML pages and Markdown files."""

from __future__ import annotations

import re

from jinja2 import Environment, PackageLoader, select_autoescape

TEMPLATES = Environment(
    loader=PackageLoader("vrtspike", "."),
    autoescape=select_autoescape(),
    trim_blocks=True,
    keep_trailing_newline=True,
)
"""Templates by their paths in this package; values in HTML are escaped."""


def with_code(html: str) -> str:
    """Mark up words in backticks as code.

    Args:
        html: a text whose special characters are escaped.

    >>> with_code("`blur` &amp; `sharp`")
    '<code>blur</code> &amp; <code>sharp</code>'
    """
    # Of plain str: Jinja's own strings would escape the elements.
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", str(html))


TEMPLATES.filters["code"] = with_code
