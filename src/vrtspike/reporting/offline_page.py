"""Pages that work offline: template, style, scripts and data in one HTML file."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from vrtspike.plotting.templates import TEMPLATES


@dataclass(frozen=True)
class Headline:
    """The start of a page.

    Attributes:
        sentence: the main result; numbers between ``**`` are shown in bold.
        facts: short statements below it.
        preset: preset of the best run; empty if none was evaluated.
    """

    sentence: str
    facts: Sequence[str]
    preset: str = ""

    @property
    def text(self) -> str:
        """The sentence without ``**``."""
        return self.sentence.replace("**", "")


@dataclass(frozen=True)
class OfflinePage:
    """A page without its data.

    Attributes:
        headline: main result and facts, at the top of the page.
        sections: titles of the sections by their names; the scripts fill them.
        scripts: names of the scripts in ``assets``, in order.
        intro: a paragraph below the headline; empty for none.
        has_files: True if pictures or videos may be files next to the page, False if the page
            contains them.
    """

    headline: Headline
    sections: Mapping[str, str]
    scripts: Sequence[str]
    intro: str = ""
    has_files: bool = False

    def render(self, data: Mapping[str, object]) -> str:
        """Return the HTML of the page with its data, any JSON values."""
        sentence = html.escape(self.headline.sentence)
        return render_offline(
            "page.html",
            self.scripts,
            data,
            headline=self.headline,
            verdict=re.sub(r"\*\*(.*?)\*\*", r"<strong>\1</strong>", sentence),
            intro=self.intro,
            sections=self.sections,
            # A page opened as a file has no origin that 'self' could stand for in every browser.
            file_sources=" 'self' file:" if self.has_files else "",
        )


def render_offline(
    template: str,
    scripts: Sequence[str],
    data: Mapping[str, object],
    **values: object,
) -> str:
    """Return the HTML of a page that loads nothing.

    Args:
        template: name of the template in ``assets``, which extends ``offline.html``.
        scripts: names of the scripts in ``assets``, in order.
        data: JSON values for the scripts.
        values: values of the template.
    """
    return TEMPLATES.get_template(f"reporting/assets/{template}").render(
        style=asset("page.css"),
        plotly=packed_plotly(),
        script="\n".join(map(asset, scripts)),
        data=script_json(data),
        **values,
    )


def script_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Convert a value to JSON that is safe in a script element.

    >>> script_json({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def packed_plotly() -> str:
    """plotly.js, compressed; the page unpacks it when a curve comes into view."""
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def asset(name: str) -> str:
    """Read a file of the page."""
    return Path(__file__).with_name("assets").joinpath(name).read_text("utf-8")
