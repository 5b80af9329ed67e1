"""Texts for users in YAML files inside packages; names in braces stand for values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ruamel.yaml import YAML


@cache
def packaged_texts(package: str, name: str) -> Any:  # noqa: ANN401 - of any structure
    """Read a YAML file inside a package.

    Args:
        package: dotted name of the package.
        name: name of the file.

    >>> packaged_texts("vrtspike.commands", "checks.yaml")["gpu_arithmetic"]["check"]
    'GPU'
    """
    return YAML(typ="safe").load(files(package).joinpath(name).read_text(encoding="utf-8"))


def fill_texts(texts: Mapping[str, str], **values: object) -> dict[str, str]:
    """Replace the names in braces of texts by values.

    >>> fill_texts({"symptom": "needs {needed:.0f} GB", "cure": "free space"}, needed=7.2)
    {'symptom': 'needs 7 GB', 'cure': 'free space'}
    """
    return {key: text.format(**values) for key, text in texts.items()}
