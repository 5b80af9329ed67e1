"""Building blocks of the schema: the base model and the two kinds of key.

Every key is either a *result* key (changing it changes the numbers that come out, so a stage that
reads it is stale) or an *operational* key (workers, log intervals, memory bounds: the numbers stay,
so nothing is stale). The kind is written where the key is defined and nowhere else.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

_OPERATIONAL = "operational"


class Section(BaseModel):
    """A mapping of the configuration: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def key(description: str, default: Any = ..., **limits: Any) -> Any:  # noqa: ANN401 - a field
    """A key whose value changes the results."""
    return Field(default, description=description, **limits)


def operational(description: str, default: Any = ..., **limits: Any) -> Any:  # noqa: ANN401
    """A key whose value changes speed, memory or logs, but no result."""
    return Field(default, description=description, json_schema_extra={_OPERATIONAL: True}, **limits)


def is_operational(field: FieldInfo) -> bool:
    """Whether the field was declared with :func:`operational`."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(_OPERATIONAL))


Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
FractionBelowOne = Annotated[float, Field(ge=0, lt=1)]
