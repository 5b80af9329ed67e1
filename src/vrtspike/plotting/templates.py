"""Templates of HTML pages and Markdown files."""

from __future__ import annotations

import re

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup, escape

TEMPLATES = Environment(
    loader=PackageLoader("vrtspike", "."),
    autoescape=select_autoescape(),
    trim_blocks=True,
    keep_trailing_newline=True,
)
"""Templates by their paths in this package; values in HTML are escaped."""


def with_code(text: str) -> Markup:
    """Return a text as HTML, with words in backticks as code.

    >>> print(with_code("`blur` & `sharp`"))
    <code>blur</code> &amp; <code>sharp</code>
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


TEMPLATES.filters["code"] = with_code
