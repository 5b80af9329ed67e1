"""Options of programs that are passed as one model, in JSON."""

from __future__ import annotations

import argparse
from functools import partial

from pydantic import BaseModel, ValidationError

from vrtspike.system.errors import ConfigError, list_faults


def add_options(parser: argparse.ArgumentParser, model: type[BaseModel], contents: str) -> None:
    """Add ``--options``, whose value is a model as JSON text.

    Args:
        parser: parser of the program.
        model: class of the options.
        contents: help.
    """
    names = ", ".join(model.model_fields)
    parser.add_argument(
        "--options",
        type=partial(_parse_options, model),
        required=True,
        metavar="JSON",
        help=f"{contents}, as JSON with the entries {names}",
    )


def _parse_options(model: type[BaseModel], text: str) -> BaseModel:
    """Read the value of ``--options``.

    Raises:
        ConfigError: naming each entry that is wrong.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        faults = []
        for detail in error.errors():
            entry = ".".join(map(str, detail["loc"])) or "JSON"
            faults.append(f"{entry}: {detail['msg']}, found {detail['input']!r}")
        names = ", ".join(model.model_fields)
        raise ConfigError(list_faults("--options", faults, f"Expected entries: {names}.")) from None
