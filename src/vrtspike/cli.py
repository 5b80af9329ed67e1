"""What every program under ``scripts/`` has in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from vrtspike.errors import EXIT_USER_ERROR, UserError, is_disk_full


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, but not that of an option which must be given or does nothing without."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.required or action.default is None or action.default is False:
            return action.help
        return super()._get_help_string(action)


def run(
    main: Callable[[], int | None], leave: Callable[[int | None], NoReturn] = sys.exit
) -> NoReturn:
    """Run ``main`` and leave with its status.

    A :class:`UserError` and a full disk become plain messages.

    Args:
        main: the program; it parses ``sys.argv`` itself and returns its exit status (None is 0).
        leave: ends the process with a status.
    """
    try:
        status = main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        status = EXIT_USER_ERROR
    except OSError as error:
        if not is_disk_full(error):
            raise
        print(
            f"error: {error.filename or 'a file'}: the disk is full ({error.strerror}); free "
            "space, or set RESULTS to another disk, and run again",
            file=sys.stderr,
        )
        status = EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    sys.stdout.flush()
    leave(status)
