"""Better answers than Snakemake's, and messages at the end."""

from __future__ import annotations

import inspect
import logging

import pytest

from tests.helpers.concurrency import run_python
from vrtspike.system.errors import RunError
from vrtspike.workflow.messages import (
    RERUN_REASON,
    RULE_NAMES,
    ExitMessages,
    MessageRewriter,
    config_fault,
)


def error(
    text: str, exception: str, *arguments: str, rewriter: MessageRewriter | None = None
) -> str:
    record = logging.makeLogRecord({"msg": text, "levelno": 40, "exception": exception})
    assert (rewriter or MessageRewriter(arguments)).rewrite(record)
    return str(record.msg)


def rewriter_with(attribute: str, facts: object) -> MessageRewriter:
    """A rewriter that has read a message with facts, which is not shown."""
    rewriter = MessageRewriter([])
    assert not rewriter.rewrite(logging.makeLogRecord({"levelno": 20, attribute: facts}))
    return rewriter


def test_other_errors_stay():
    assert error("something else", "MissingRuleException") == "something else"
    assert error("No rule", "") == "No rule"


def test_a_mistyped_target_is_answered_with_the_nearest():
    rewriter = rewriter_with(RULE_NAMES, ["train_light", "train_demo", "all"])
    text = "No rule to produce trian_light (if you use input functions make sure ...)"
    message = error(text, "MissingRuleException", rewriter=rewriter)
    assert message.startswith(
        "error: no target and no file of this workflow: trian_light; did you mean train_light?\n"
    )
    text = "No rule to produce results/x.csv (if you use input functions make sure ...)"
    assert "did you mean" not in error(text, "MissingRuleException", rewriter=rewriter)


def test_a_job_that_was_forced_is_shown_with_its_reason():
    rewriter = rewriter_with(RERUN_REASON, ("r/b.json", "it is damaged"))
    reasons = []
    for outputs in (["r/a.json", "r/b.json (update)"], ["r/a.json"]):
        fields = {"event": "job_info", "output": outputs, "reason": "Forced execution"}
        record = logging.makeLogRecord(fields)
        assert rewriter.rewrite(record)
        reasons.append(vars(record)["reason"])
    assert reasons == ["it is damaged", "Forced execution"]


def test_a_broken_configuration_file_is_named_with_its_line(tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("GPUS: 0\n")
    bad.write_text("GPUS: 0\nDATA: {ROOT: x\n")
    text = "WorkflowError:\nConfig file is not valid JSON or YAML."
    for options in (["--configfile", str(good), str(bad), "--cores"], [f"--configfiles={bad}"]):
        message = error(text, "WorkflowError", "-n", "demo", "--config", "GPUS=1", *options)
        assert message.startswith(f"error: {bad}:3: not YAML: ")
    assert error(text, "WorkflowError", "--configfile", str(good), "--cores", str(bad)) == text


@pytest.mark.parametrize(
    ("entry", "section"),
    [("DATA.ROOT=/x", "'DATA={ROOT: /x}'"), ("A.B.C=1", "'A={B: {C: 1}}'")],
)
def test_a_dotted_key_of_the_configuration_is_explained(entry, section):
    fault = config_fault(["-n", "demo", "--config", "GPUS=0", entry, "--cores", "1"])
    assert fault is not None
    assert fault.startswith(f"--config {entry}: ")
    assert f"--config SET={entry} for all" in fault
    assert f"--config {section} for a" in fault
    assert config_fault(["-n", "--config", "GPUS=0", f"SET={entry}", "--", "x.y=z"]) is None


def warning(file: str) -> logging.LogRecord:
    text = f"Restored previous version of {file} (updating job failed)."
    return logging.makeLogRecord({"msg": text, "levelno": logging.WARNING})


@pytest.mark.parametrize("flag", ["", " (update)"])
def test_one_message_says_that_a_result_is_kept(flag):
    rewriter = MessageRewriter([])
    assert not rewriter.rewrite(warning(f"r/train/p/run.json{flag}"))
    weights = warning(f"r/train/p/weights.safetensors{flag}")
    assert rewriter.rewrite(weights)
    assert weights.msg == "r/train/p: the former result is kept"
    assert rewriter.rewrite(logging.makeLogRecord({"msg": "x", "levelno": logging.WARNING}))


def test_a_file_that_cannot_be_written_is_named():
    message = error(
        "Write-protected output files for rule x:\nr/a.json", "ProtectedOutputException"
    )
    assert message.startswith("error: r/a.json: cannot be written; ")


PROGRAM = """
from vrtspike.system.errors import RunError
from vrtspike.workflow.messages import ExitMessages
messages = ExitMessages()
messages.add("first", "preset p cannot be used: no such file")
messages.add("second", "first")
print("plan", flush=True)
"""


KNOWN = ["first", "preset p cannot be used: no such file", "second"]
ERROR = """
messages.exit_status = 1
with messages.user_errors():
    raise RunError('no such file')
"""


TOO_LITTLE_MEMORY = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
with messages.user_errors():
    raise ImportError("libopenblas.so: failed to map segment from shared object")
"""
OF_MEMORY = (
    "error: memory is limited to 16384 MB (ulimit -v); raise it: ulimit -v unlimited "
    "(libopenblas.so: failed to map segment from shared object)"
)


@pytest.mark.parametrize(
    ("then", "status", "printed"),
    [
        ("", 0, KNOWN),
        (TOO_LITTLE_MEMORY, 2, [OF_MEMORY, *KNOWN]),
        ("messages.exit_status = 1", 1, KNOWN),
        # A message that was printed as an error is not printed again.
        (ERROR, 2, ["error: no such file", "first", "second"]),
    ],
)
def test_messages_are_reported_once_and_last(then, status, printed):
    done = run_python("-c", PROGRAM + then)
    assert (done.returncode, done.stdout) == (status, "plan\n")
    assert done.stderr.splitlines() == printed


class Planned:
    """An object that rules call."""

    value = 3

    @property
    def invalid(self) -> int:
        raise RunError("no such file")

    def double(self, wildcards: str, resources: int) -> str:
        if resources < 0:
            raise RunError("no such file")
        return wildcards * resources


def test_a_view_for_rules_returns_the_same_and_ends_the_process_at_a_user_error(capsys):
    planned = ExitMessages().guarded(Planned())
    assert planned.value == 3
    assert planned.double("a", resources=2) == "aa"
    # Snakemake passes what the names of parameters ask for.
    assert list(inspect.signature(planned.double).parameters) == ["wildcards", "resources"]
    for call in (lambda: planned.double("a", -1), lambda: planned.invalid):
        with pytest.raises(SystemExit) as ended:
            call()
        assert ended.value.code == 2
        assert capsys.readouterr().err == "error: no such file\n"
    with pytest.raises(AttributeError):
        planned.unknown()
