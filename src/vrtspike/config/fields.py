"""Building blocks of the schema: the base model and the four kinds of key.

- :func:`key`: its value changes results, so that stages that read it become stale
  (``TRAIN.OPTIM.LR``).
- :func:`weights`: a path of weights, whose contents change results, not the path
  (``MODEL.PRETRAINED``).
- :func:`operational`: its value changes speed, memory or logs, but no result, so that nothing
  becomes stale (``DATALOADER.TRAIN_WORKERS``).
- :func:`private`: an operational key that published files leave out (``LOG.ON_END``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from vrtspike.system.user_environment import expand_home

_OPERATIONAL = "operational"
_WEIGHTS = "weights"
_PRIVATE = "private"


class Section(BaseModel):
    """A mapping of the configuration: frozen; unknown keys and infinite numbers are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def key(description: str, default: Any = ..., **limits: Any) -> Any:  # noqa: ANN401 - a field
    """Declare a key whose value changes the results."""
    return Field(default, description=description, **limits)


def operational(description: str, default: Any = ..., **limits: Any) -> Any:  # noqa: ANN401
    """Declare a key whose value changes speed, memory or logs, but no result."""
    return Field(default, description=description, json_schema_extra={_OPERATIONAL: True}, **limits)


def weights(description: str, default: Any = ..., **limits: Any) -> Any:  # noqa: ANN401
    """Declare a key with a path of weights, whose contents change the results."""
    return Field(default, description=description, json_schema_extra={_WEIGHTS: True}, **limits)


def private(description: str, default: Any = ..., **limits: Any) -> Any:  # noqa: ANN401
    """Declare an operational key of the user alone, such as a command with a password.

    Published files leave it out (:func:`public_tree`).
    """
    return Field(
        default,
        description=description,
        json_schema_extra={_OPERATIONAL: True, _PRIVATE: True},
        **limits,
    )


def _has_mark(field: FieldInfo, mark: str) -> bool:
    marks = field.json_schema_extra
    return isinstance(marks, dict) and bool(marks.get(mark))


def is_operational(field: FieldInfo) -> bool:
    """Return whether the field was declared with :func:`operational` or :func:`private`."""
    return _has_mark(field, _OPERATIONAL)


def decides_results(field: FieldInfo) -> bool:
    """Return whether the value of the field itself changes the results."""
    return not _has_mark(field, _OPERATIONAL) and not _has_mark(field, _WEIGHTS)


def public_tree(section: BaseModel) -> dict[str, Any]:
    """Return a section as JSON values for other people: private keys have their defaults."""
    return _tree_without_private(section, lambda default: default)


def shown_tree(section: BaseModel) -> dict[str, Any]:
    """Return a section as JSON values for pages: private keys that are set are only marked."""
    return _tree_without_private(section, lambda default: "(not shown)")


def _tree_without_private(section: BaseModel, replacement: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a section as JSON values.

    Args:
        section: part of the settings.
        replacement: returns the value that replaces a private one, from its default.
    """
    tree = section.model_dump(mode="json")
    for name, schema in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            tree[name] = _tree_without_private(value, replacement)
            continue
        default = schema.get_default(call_default_factory=True)
        if _has_mark(schema, _PRIVATE) and value != default:
            tree[name] = replacement(default)
    return tree


def _normalized(path: str) -> str:
    """Return a path as :data:`NormalizedPath` has it; an empty one stays empty."""
    return str(Path(expand_home(path))) if path else ""


NormalizedPath = Annotated[str, AfterValidator(_normalized)]
"""A path as Snakemake compares it: without ``./``, ``//`` and a last ``/``; ``~`` is expanded."""


def _literal(path: str) -> str:
    """Reject paths that Snakemake, or a reader, would take for a pattern."""
    if "{" in path or "}" in path:
        raise ValueError(f"found {path!r}; Snakemake reads braces as wildcards, name it without")
    if "$" in path:
        raise ValueError(
            f"found {path!r}; variables are not expanded here: write the complete path, or ~ for "
            "the home folder"
        )
    return path


OutputPath = Annotated[NormalizedPath, AfterValidator(_literal)]
"""A folder that the workflow writes."""
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
UnitFraction = Annotated[float, Field(ge=0, le=1)]
ShareBelowOne = Annotated[float, Field(ge=0, lt=1)]
