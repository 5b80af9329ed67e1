"""The server of the live page: what it answers, to whom, and that it reads the run each time."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request

import pytest

from tests.reporting.live_runs import append_step, append_text, fetch, make_live_run, note_status
from vrtspike.reporting.live_server import LiveServer, serving
from vrtspike.reporting.live_state import LiveRun
from vrtspike.system.errors import RunError


@pytest.fixture
def run(tmp_path) -> LiveRun:
    return LiveRun(make_live_run(tmp_path / "run"))


@pytest.fixture
def server(run) -> Iterator[LiveServer]:
    with serving(run) as server:
        yield server


def state(server: LiveServer) -> dict:
    with fetch(f"{server.address}snapshot.json") as answer:
        return json.load(answer)


def status(server: LiveServer, path: str = "", host: str | None = None, method: str = "GET") -> int:
    """The status of a request; without host as the address has it."""
    headers = {} if host is None else {"Host": host}
    request = Request(f"{server.address}{path}", headers=headers, method=method)
    try:
        with fetch(request) as answer:
            return answer.status
    except HTTPError as error:
        with error:
            return error.code


def test_the_page_and_the_state_follow_the_run(server, run):
    with fetch(server.address) as answer:
        page = answer.read().decode()
        headers = answer.headers
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "step 10 of 100" in page
    assert state(server)["curves"]["train"]["loss"]["steps"][-1] == 10
    append_step(run.folder, 11)
    assert state(server)["curves"]["train"]["loss"]["steps"][-2:] == [10, 11]
    append_text(run.folder, '{"kind": "train"')
    assert "step 11 of 100" in state(server)["heading"]


def test_only_this_machine_is_answered(server):
    assert server.server_address[0] == "127.0.0.1"
    port = server.server_port
    hosts = ("localhost", f"localhost:{port}", "127.0.0.1:1", "LOCALHOST:2", "[::1]:3")
    assert [status(server, host=host) for host in hosts] == [200] * 5
    others = ("example.org", f"example.org:{port}", "localhost.example.org", "127.0.0.1.nip.io")
    others += ("localhost@example.org", "[::1", "10.0.0.1")
    for path in ("", "snapshot.json"):
        assert [status(server, path, host) for host in others] == [403] * 7


def test_a_request_without_host_is_refused(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.putrequest("GET", "/", skip_host=True)
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()


def test_other_paths_and_methods_are_refused(server):
    paths = ("run.json", "metrics.jsonl", "../run.json", "%2e%2e/run.json", "snapshot.json?a=1")
    paths += ("index.html", "pictures/step_00000010_restored.png")
    assert [status(server, path) for path in paths] == [404] * 7
    assert [status(server, method=method) for method in ("POST", "PUT", "HEAD")] == [501] * 3


def test_a_damaged_log_is_answered_and_kept_as_fault(server, run):
    append_text(run.folder, "not a record\n")
    assert status(server, "snapshot.json") == 500
    assert isinstance(server.fault, RunError)
    assert "not a JSON record" in str(server.fault)


def test_the_end_counts_once_a_page_was_sent_it(server, run):
    state(server)
    assert not server.end_is_shown.is_set()
    note_status(run.folder, "finished")
    with fetch(server.address) as answer:
        answer.read()
    assert not server.end_is_shown.is_set()
    assert state(server)["has_ended"]
    assert server.end_is_shown.wait(60)


def test_a_port_in_use_is_an_error(run):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(RunError, match=f"--port {port}: cannot be used on 127.0.0.1"):
            LiveServer(run, port)
