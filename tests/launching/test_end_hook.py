"""LOG.ON_END: the environment of the command, and its failure."""

from __future__ import annotations

from pathlib import Path

from vrtspike.io.files import write_json
from vrtspike.launching.end_hook import run_end_hook
from vrtspike.monitoring.display import Messages


def test_on_end_gets_the_status_in_its_environment(tmp_path, capfd):
    write_json(tmp_path / "run.json", {"status": "whatever", "step": 7, "metrics": {"psnr": 30.5}})
    command = 'echo "$VRTSPIKE_PRESET $VRTSPIKE_STATUS $VRTSPIKE_STEP $VRTSPIKE_METRICS"'
    command += '; echo "$VRTSPIKE_RUN" >&2; echo "$VRTSPIKE_RESULT"'
    for status, word in ((0, "finished"), (75, "interrupted"), (1, "failed")):
        run_end_hook(command, status, "demo", tmp_path, Path("results/demo"), Messages())
        assert capfd.readouterr().out.splitlines() == [
            *(f'demo {word} 7 {{"psnr": 30.5}}', str(tmp_path)),
            str(Path("results/demo").absolute()),
        ]


def test_a_failure_of_on_end_is_a_warning(tmp_path, capfd):
    log = tmp_path / "train.log"
    log.write_text("trained\n")
    run_end_hook("echo one; exit 3", 0, "demo", tmp_path, tmp_path, Messages(log))
    warning = f"warning: LOG.ON_END ended with 3; its output: {log}\n"
    assert capfd.readouterr().out == warning
    assert log.read_text() == f"trained\none\n{warning}"
