"""Messages on errors of Python that the user can fix."""

from __future__ import annotations

import errno

import pytest

from vrtspike.system.errors import RunError
from vrtspike.system.user_error_messages import user_fault


@pytest.mark.parametrize(
    ("error", "beginning"),
    [
        (RunError("run.json: damaged"), "run.json: damaged"),
        (OSError(errno.ENOSPC, "No space", "source", None, "target"), "target: the disk is full"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a"), "a: File name too long; fix it"),
        (ImportError("x.so: failed to map segment"), "a package cannot be imported"),
        (ModuleNotFoundError("no", name="nosuchpackage.inner"), "the package nosuchpackage is"),
    ],
)
def test_errors_that_the_user_can_fix_have_a_message(error, beginning):
    message = user_fault(error)
    assert message is not None
    assert message.startswith(beginning)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("wrong"),
        ModuleNotFoundError("no", name="vrtspike.no_such_module"),
        OSError(errno.EBADF, "Bad file descriptor"),
        OSError(errno.EACCES, "Permission denied"),  # of no file
    ],
)
def test_other_errors_are_defects(error):
    assert user_fault(error) is None
