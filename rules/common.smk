"""What several stages share: the configuration, read once, and how jobs hang together."""

import atexit
import contextlib
import gc
import os
import sys
from pathlib import Path

from vrtspike.config.merging import parse_overrides
from vrtspike.config.workflow import load_workflow
from vrtspike.deblurring.data.manifests import SURVEY
from vrtspike.deblurring.planning.raw_data import RawData
from vrtspike.deblurring.videos import Videos
from vrtspike.endings import STARTER, end_with_starter, name_process
from vrtspike.errors import EXIT_USER_ERROR, UserError
from vrtspike.planning.damage import is_damaged, is_missed
from vrtspike.planning.notices import Notices
from vrtspike.planning.options import one_of
from vrtspike.planning.params import (
    code_lines,
    of_every_problem,
    own_preset,
    problem_code_lines,
    setting_lines,
)
from vrtspike.planning.training import Trainings
from vrtspike.problems import find_problem
from vrtspike.watching.stopping import hand_on_stops

# A plan is many objects that all stay: looking for garbage among them took a tenth of its time.
gc.set_threshold(200_000)
# The same at the end, where Python looks through all of them: half a second of every job.
atexit.register(gc.freeze)
# Jobs find the Python that runs Snakemake, also where its environment is not activated.
os.environ.update(
    PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
)
# Programs end with the Snakemake that runs them, and so does a Snakemake within a rule. A job of a
# cluster has its own, which lives on when that at the desk is killed.
if workflow.is_main_process:
    end_with_starter()
os.environ[STARTER] = name_process() or ""
if not workflow.dryrun:
    hand_on_stops()


@contextlib.contextmanager
def user_errors():
    """A UserError ends Snakemake as it ends every program: a plain message and exit status 2."""
    try:
        yield
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        NOTICES.leave_out(str(error))
        raise SystemExit(EXIT_USER_ERROR)


NOTICES = Notices()
OVERLAYS = [str(path) for path in workflow.overwrite_configfiles]
CONFIGFILES = [*map(str, workflow.configfiles[len(OVERLAYS) :]), *OVERLAYS]
with user_errors():
    # Snakemake turns the numbers within a mapping into strings, so they are read again.
    OVERRIDES = parse_overrides(workflow.config_settings.config_args, "--config").tree
    PLAN = load_workflow(CONFIGFILES, OVERRIDES)
    VIDEOS = Videos(PLAN)
    DATASETS = VIDEOS.datasets

RESULTS = PLAN.settings.RESULTS
SCRIPTS = Path("scripts")
ASKS = workflow.is_main_process  # jobs on a cluster plan for themselves alone
RAW_DATA = RawData(VIDEOS, lambda: workflow.dryrun, NOTICES.add, measures=ASKS)
METRICS = of_every_problem("METRICS")  # which tables and pages show
SHOWN = [*METRICS, *of_every_problem("SETTINGS")]
REASONS = {}  # of this project's own, by the file that is made again
TRAININGS = Trainings(PLAN, SCRIPTS / "train.py", NOTICES.add)

if workflow.is_main_process:
    for name, error in PLAN.broken.items():
        NOTICES.add(f"preset {name} cannot be used, others can:\n{error}")


def code(*programs, uses=()):
    """Params that change with the code behind these programs."""
    return code_lines(*(SCRIPTS / program for program in programs), uses=uses)


def problem_code(part, program, preset=own_preset):
    """Params that change with the code behind a program and a part of a preset's problem."""
    return problem_code_lines(PLAN, part, SCRIPTS / program, preset)


def settings(select, preset=own_preset):
    """Params that change with the settings `select` picks from a preset, one per key."""
    return setting_lines(PLAN, select, preset)


def make_again(path, reason=None):
    """Run the job that makes a file, whether it seems stale or not."""
    workflow.dag.forcefiles.add(path)
    if reason is not None:
        REASONS[path] = reason


def unless_there(file, later=None):
    """An input function that names no file: the job runs if its result is missed (`is_missed`)."""

    def nothing(wildcards):
        path, *made = (each.format(**wildcards) for each in (file, later) if each)
        if is_missed(Path(RESULTS), path, *made):
            make_again(f"{RESULTS}/{path}", "no result yet")
        return []

    return nothing


def renew_damaged(path, kind):
    """Make a manifest again that cannot be read."""
    if is_damaged(path, kind):
        make_again(path, f"{path} is damaged")


include: "functions/datasets.smk"
