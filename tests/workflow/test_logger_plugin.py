"""Messages of Snakemake's logging thread and errors of the main thread do not divide each other."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from snakemake_logger_plugin_vrtspike import LogHandler, LogHandlerSettings
from tests.helpers.streams import PieceRecorder
from vrtspike.system.errors import UserError
from vrtspike.workflow.messages import ExitMessages


def log_handler(monkeypatch, dryrun: bool) -> LogHandler:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    names = ("verbose", "quiet", "printshellcmds", "debug_dag")
    settings = SimpleNamespace(dryrun=dryrun, **dict.fromkeys(names, False))
    return LogHandler(settings, LogHandlerSettings())


def test_a_fault_of_the_handler_is_printed_and_ends_nothing(monkeypatch, capsys):
    handler = log_handler(monkeypatch, dryrun=False)
    monkeypatch.setattr(handler, "_rewriter", None)
    handler.emit(logging.makeLogRecord({"msg": "Config file x is read.", "levelno": 30}))
    assert "AttributeError: 'NoneType' object has no attribute" in capsys.readouterr().err


@pytest.mark.parametrize("dryrun", [False, True], ids=["run", "plan"])
def test_a_message_of_snakemake_is_one_piece(monkeypatch, dryrun):
    output = PieceRecorder()
    monkeypatch.setattr("sys.stderr", output)
    handler = log_handler(monkeypatch, dryrun)
    handler.emit(logging.makeLogRecord({"msg": "Config file x is read.", "levelno": 30}))
    assert output.pieces == ["Config file x is read.\n"]


def test_an_error_before_a_run_is_one_piece(monkeypatch):
    output = PieceRecorder()
    monkeypatch.setattr("sys.stderr", output)
    with pytest.raises(SystemExit), ExitMessages().user_errors():
        raise UserError("preset x: unknown key")
    assert output.pieces == ["error: preset x: unknown key\n"]
