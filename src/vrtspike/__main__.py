"""``python -m vrtspike`` is the command ``vrtspike``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; Ctrl-C while its modules are imported ends it without a traceback."""
    try:
        from vrtspike.commands.main import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(
            130
        ) from None  # as system.program.run_main does, which is not imported yet
    run()


if __name__ == "__main__":
    main()
