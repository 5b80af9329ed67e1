"""Options that several programs and commands take, and types of their values."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from inspect import signature
from pathlib import Path

from vrtspike.system.cpus import available_cpus
from vrtspike.system.errors import ConfigError, list_faults
from vrtspike.system.home import CONFIG
from vrtspike.system.user_environment import write_fault


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Help formatter that shows defaults, but not of required options, None, False and empty ones.

    A help that names the default itself stays as it is.
    """

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.required or action.default is None or action.default is False:
            return action.help
        if action.default in ("", []) or "(default:" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add ``--run`` and ``--output``, the options of programs that compare runs."""
    parser.add_argument(
        "--run",
        dest="runs",
        type=Path,
        nargs="+",
        required=True,
        metavar="RUN",
        help="folders of finished runs: results/train/<preset> ...",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")


def add_configuration(
    parser: argparse.ArgumentParser, contents: str = "", configfiles: Sequence[Path] = ()
) -> None:
    """Add ``--configfile`` and ``--config``, as snakemake takes them.

    :func:`vrtspike.config.yaml_documents.parse_config_words` reads the words of ``--config``.

    Args:
        parser: parser of the program or command.
        contents: help on the files.
        configfiles: files that are read if none is given.
    """
    parser.add_argument(
        "--configfile",
        type=Path,
        nargs="+",
        default=list(configfiles),
        metavar="FILE",
        help=contents or "overrides config/config.yaml",
    )
    parser.add_argument(
        "--config",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="values that override the files, as snakemake takes them, or a JSON mapping",
    )


def add_preset(parser: argparse.ArgumentParser) -> None:
    """Add ``--preset``, and the options with which rules pass the configuration."""
    parser.add_argument("--preset", required=True, help="name of the preset")
    contents = f"workflow configuration, later files win (default: {CONFIG})"
    add_configuration(parser, contents, [CONFIG])


def add_shard(parser: argparse.ArgumentParser) -> None:
    """Add the options of programs that process a shard."""
    parser.add_argument(
        "--shard",
        default="0-of-1",
        help="which sequences: those that fall into the first of 8 shards are 0-of-8",
    )
    parser.add_argument(
        "--threads", type=positive_int, default=available_cpus(), help="sequences at a time"
    )
    parser.add_argument(
        "--output", type=Path, required=True, help="what was made of the shard, to write (JSON)"
    )


def add_output(
    parser: argparse.ArgumentParser,
    contents: str,
    metavar: str = "OUTPUT",
    *,
    required: bool = False,
) -> None:
    """Add ``--output``, an :func:`output_path` that is described by its contents."""
    parser.add_argument(
        "-o", "--output", type=output_path, required=required, metavar=metavar, help=contents
    )


def output_path(text: str) -> Path:
    """Return a path that can be written to, for ``type`` of an argument; its test file is removed.

    Raises:
        argparse.ArgumentTypeError: if no file can be created in its nearest folder.
    """
    path = Path(text)
    reason = write_fault(path.parent if path.is_file() else path)
    if reason:
        raise argparse.ArgumentTypeError(
            f"{text}: cannot be written there ({reason}); give another place"
        )
    return path


def bounded_int(text: str, min_value: int, max_value: int | None = None) -> int:
    """Parse an option's value: an integer within limits.

    Args:
        text: the value as typed.
        min_value: the smallest one allowed, from 0.
        max_value: the largest one allowed; None for no limit.

    Raises:
        argparse.ArgumentTypeError: if it is something else.

    >>> bounded_int("0", min_value=0)
    0
    """
    expected = f"{min_value} or more" if max_value is None else f"{min_value} to {max_value}"
    error = argparse.ArgumentTypeError(f"found {text}, expected {expected}")
    if not text.isdecimal():
        raise error
    number = int(text)
    if number < min_value or (max_value is not None and number > max_value):
        raise error
    return number


def positive_int(text: str) -> int:
    """Parse an option's value: an integer of at least 1.

    >>> positive_int("3")
    3
    """
    return bounded_int(text, min_value=1)


def positive_number(text: str) -> float:
    """Parse an option's value: a finite number above 0.

    >>> positive_number("0.5")
    0.5
    """
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text}, expected a number above 0")
    return number


def add_options(parser: argparse.ArgumentParser, model: type[object], contents: str) -> None:
    """Add ``--options``, whose value is a model as JSON text.

    Args:
        parser: parser of the program.
        model: class of the options, of pydantic or a dataclass.
        contents: help.
    """
    names = ", ".join(signature(model).parameters)
    parser.add_argument(
        "--options",
        type=partial(_parse_options, model),
        required=True,
        metavar="JSON",
        help=f"{contents}, as JSON with the entries {names}",
    )


def _parse_options(model: type[object], text: str) -> object:
    """Read the value of ``--options``.

    Raises:
        ConfigError: naming each entry that is wrong.
    """
    # Imported here, because most programs do without.
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(model).validate_json(text)
    except ValidationError as error:
        faults = []
        for detail in error.errors():
            entry = ".".join(map(str, detail["loc"])) or "JSON"
            faults.append(f"{entry}: {detail['msg']}, found {detail['input']!r}")
        names = ", ".join(signature(model).parameters)
        raise ConfigError(list_faults("--options", faults, f"Expected entries: {names}.")) from None
