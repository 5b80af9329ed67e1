"""The server of a live page: two fixed paths, for this machine only."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from vrtspike.reporting.live_page import live_json, live_page
from vrtspike.reporting.live_state import LiveRun, Snapshot
from vrtspike.system.errors import RunError

ADDRESS = "127.0.0.1"
_HOSTS = frozenset({ADDRESS, "localhost", "::1"})
"""Names by which requests may call this machine.

Any other name belongs to a site that points its own domain at this machine in order to read the
page (DNS rebinding).
The port may be another one, as through an SSH tunnel.
"""
_PAGES: Mapping[str, tuple[str, Callable[[Snapshot], str]]] = {
    "/": ("text/html", live_page),
    "/snapshot.json": ("application/json", live_json),
}
"""All paths, with media type and contents; no path of a request is opened as a file."""
_REQUEST_S = 30.0
"""Seconds after which a connection without request is closed."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer: other sites can neither embed nor read it, and nothing is cached."""


class LiveServer(ThreadingHTTPServer):
    """Server of the page of a run, and of the run's current state.

    Args:
        run: reader of the run's state.
        port: 0 for a free one.

    Attributes:
        end_is_shown: set when a page has been sent the state of the run's end.
        fault: the error that kept the last request from being answered.

    Raises:
        RunError: if the port cannot be used.
    """

    daemon_threads = True

    def __init__(self, run: LiveRun, port: int = 0) -> None:
        self._run = run
        self._lock = threading.Lock()
        self.end_is_shown = threading.Event()
        self.fault: Exception | None = None
        try:
            super().__init__((ADDRESS, port), _Requests)
        except OSError as error:
            raise RunError(
                f"--port {port}: cannot be used on {ADDRESS} ({error.strerror}); give another "
                "one, or leave --port out for a free one"
            ) from error

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Report the error of a request, unless the client has disconnected."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def snapshot(self) -> Snapshot:
        """Read the run; requests are served by threads, one of which reads at a time."""
        with self._lock:
            return self._run.read()


class _Requests(BaseHTTPRequestHandler):
    """Answers GET of :data:`_PAGES` from this machine."""

    server: LiveServer
    timeout = _REQUEST_S

    def do_GET(self) -> None:
        """Answer a request for one of the pages."""
        if not self._is_for_this_machine():
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "This page is for localhost only.\n")
            return
        if self.path not in _PAGES:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "No such page.\n")
            return
        kind, make = _PAGES[self.path]
        try:
            snapshot = self.server.snapshot()
            text = make(snapshot)
        except Exception as error:  # an exception would end this thread alone
            self.server.fault = error
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", f"{error}\n")
            return
        self._answer(HTTPStatus.OK, kind, text)
        # A request for the page does not prove that a browser has run its script.
        if snapshot.has_ended and make is live_json:
            self.server.end_is_shown.set()

    def _is_for_this_machine(self) -> bool:
        """Return whether the header Host names this machine."""
        try:
            return urlsplit(f"//{self.headers.get('Host', '')}").hostname in _HOSTS
        except ValueError:  # an invalid address in brackets
            return False

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        """Send an answer."""
        contents = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(contents)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(contents)

    def log_message(self, format: str, *args: object) -> None:
        """Log no requests, as they come every few seconds."""


@contextlib.contextmanager
def serving(run: LiveRun, port: int = 0) -> Iterator[LiveServer]:
    """Serve a run's page in a thread until the context ends.

    Raises:
        RunError: if the port cannot be used.
    """
    with LiveServer(run, port) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True, name="live page")
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
