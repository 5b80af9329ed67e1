"""RunSettings as others may see them: on pages, in tables, at trackers."""

from __future__ import annotations

from typing import Any

from vrtspike.config.run_schema import RunSettings

NOT_SHOWN = "(not shown)"


def shown_settings(settings: RunSettings) -> dict[str, Any]:
    """All settings as a tree, without what may hold a password: the command of LOG.ON_END.

    >>> settings = RunSettings.model_validate({"LOG": {"ON_END": "notify --key 7"}})
    >>> shown_settings(settings)["LOG"]["ON_END"]
    '(not shown)'
    """
    tree = settings.model_dump(mode="json")
    if tree["LOG"]["ON_END"] is not None:
        tree["LOG"]["ON_END"] = NOT_SHOWN
    return tree
