"""The command ``vrtspike watch``: a training as a live page, or in the terminal."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.system.errors import ConfigError
from vrtspike.system.options import bounded_int

if TYPE_CHECKING:
    from rich.text import Text

    from vrtspike.reporting.live_server import LiveServer
    from vrtspike.reporting.live_state import LiveRun, Snapshot

MAX_PORT = 65535
REFRESH_S = 5.0
"""Seconds between two refreshes of the terminal; ``live.js`` sets the interval of the page."""
CHECK_S = 1.0
"""Seconds between two checks whether the run has ended."""
_LAST_PAGE_S = 90.0
"""Seconds within which a page requests the final state of the run; browsers may keep a page in the
background waiting for a minute."""


def _port(text: str) -> int:
    """Parse a port; 0 is a free one."""
    return bounded_int(text, 0, MAX_PORT)


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "run_path", type=Path, metavar="RUN", help="folder of a run, or name of its preset"
    )
    parser.add_argument("--port", type=_port, default=0, help="of the page; 0 is a free one")
    parser.add_argument(
        "--no-browser", action="store_true", help="serve the page without opening a browser"
    )
    parser.add_argument(
        "--terminal", action="store_true", help="show the progress here instead of on a page"
    )
    parser.add_argument("--once", action="store_true", help="print the progress once")


def run_watch(arguments: argparse.Namespace) -> None:
    """Show a training while it runs: curves, last pictures, speed, remaining time.

    RUN is a preset, for its latest run, the run's folder (runs/<preset>/<fingerprint>) or its
    result (results/train/<preset>). A page for this machine only is opened in the browser; without
    a display, or over SSH, the progress is shown in the terminal (--no-browser serves the page even
    there, for a tunnel: ssh -L). The command ends with the training, or with Ctrl-C.
    """
    in_terminal = arguments.terminal or arguments.once
    if in_terminal and (arguments.no_browser or arguments.port):
        raise ConfigError(
            "--port and --no-browser are about the page, which --terminal and --once do not make; "
            "leave them out"
        )
    from vrtspike.reporting.live_state import LiveRun
    from vrtspike.reporting.live_text import text_lines
    from vrtspike.runs.selection import find_run

    run = LiveRun(find_run(arguments.run_path))
    serves = arguments.no_browser or bool(arguments.port) or has_display()
    if serves and not in_terminal:
        _serve(run, arguments.port, opens_browser=not arguments.no_browser and has_display())
    elif arguments.once or not sys.stdout.isatty():
        print("\n".join(text_lines(run.read())))
    else:
        show_in_terminal(run)


def has_display() -> bool:
    """Return whether a browser on this machine can be seen by the user."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    if sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _serve(run: LiveRun, port: int, *, opens_browser: bool) -> None:
    """Serve the page until the run has ended and a browser has shown it."""
    import webbrowser

    from vrtspike.reporting.live_server import serving
    from vrtspike.reporting.live_text import live_heading

    has_ended = run.has_ended()
    with serving(run, port) as server:
        print(f"page: {server.address} (Ctrl-C ends it)", flush=True)
        if opens_browser:
            webbrowser.open(server.address)
        wait_for_end(run, server, None if has_ended else _LAST_PAGE_S)
        print(live_heading(server.snapshot()))


def wait_for_end(run: LiveRun, server: LiveServer, patience_s: float | None) -> None:
    """Wait until the run has ended and its final state was sent to a page.

    Args:
        run: reader of the run's state.
        server: server of the run's page.
        patience_s: seconds to wait for a page after the end; None if there is no limit, as for a
            run that had ended before and is to be shown once.

    Raises:
        Exception: raised while answering a request.
    """
    while not run.has_ended():
        if server.fault is not None:
            raise server.fault
        time.sleep(CHECK_S)
    deadline = None if patience_s is None else time.monotonic() + patience_s
    while not server.end_is_shown.wait(CHECK_S):
        if server.fault is not None:
            raise server.fault
        if deadline is not None and time.monotonic() >= deadline:
            return


def show_in_terminal(run: LiveRun) -> None:
    """Show the progress, refreshed in place, until the run has ended."""
    from rich.live import Live

    snapshot = run.read()
    with Live(terminal_text(snapshot), auto_refresh=False) as live:
        while not snapshot.has_ended:
            time.sleep(REFRESH_S)
            snapshot = run.read()
            live.update(terminal_text(snapshot), refresh=True)


def terminal_text(snapshot: Snapshot) -> Text:
    """The lines of the progress, each cut at the width of the terminal."""
    from rich.text import Text

    from vrtspike.reporting.live_text import text_lines

    return Text("\n".join(text_lines(snapshot)), no_wrap=True, overflow="ellipsis")
