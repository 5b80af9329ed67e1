from __future__ import annotations

from vrtspike.watching.stages import Stages


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_time_of_a_stage_is_that_in_which_a_job_was_at_work():
    clock = Clock()
    stages = Stages(clock)
    stages.expect({"ingest": 3})
    stages.start(1, "ingest")
    clock.now = 102.0
    stages.start(2, "ingest")
    clock.now = 103.0
    assert stages.finish(1) == "ingest"
    assert stages.complete() == []
    clock.now = 104.5
    stages.finish(2)
    # Nothing of the stage is at work for a while.
    clock.now = 200.0
    stages.start(3, "ingest")
    clock.now = 201.0
    stages.finish(3)
    assert [line.split() for line in stages.complete()] == [["ingest", "3/3", "5.5", "s"]]
    assert stages.complete() == []


def test_a_stage_that_grows_is_told_again():
    stages = Stages(Clock())
    stages.expect({"ingest": 1})
    stages.start(1, "ingest")
    stages.finish(1)
    assert len(stages.complete()) == 1
    stages.expect({"ingest": 2})
    stages.start(2, "ingest")
    stages.finish(2)
    assert [line.split()[:2] for line in stages.complete()] == [["ingest", "2/2"]]


def test_long_stages_are_told_in_minutes_and_the_bar_shows_the_share():
    clock = Clock()
    stages = Stages(clock)
    stages.expect({"voxelize": 4})
    for job in range(4):
        stages.start(job, "voxelize")
    clock.now += 75
    stages.finish(0)
    assert stages.bar("voxelize").split() == ["voxelize", "━" * 6 + "╌" * 18, "1/4", "1:15"]
    assert stages.running == ["voxelize"]


def test_a_job_that_failed_is_neither_at_work_nor_finished():
    stages = Stages(Clock())
    stages.expect({"train": 1})
    stages.start(7, "train")
    assert stages.leave(7) == "train"
    assert stages.finish(7) is None
    assert (stages.running, stages.complete()) == ([], [])
    assert stages.finish(8) is None
