"""A cluster and a project on it, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.endurance.submitted import OnCluster
from tests.workflow.cluster import Cluster, missing, start_cluster
from tests.workflow.conftest import finished_once
from tests.workflow.project import Project
from tests.workflow.staleness import copied

__all__ = ["finished_once"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes; each test leaves them up and without jobs."""
    if reason := missing():
        pytest.skip(reason)
    with start_cluster() as started:
        yield started


@pytest.fixture(scope="module")
def prepared(
    cluster: Cluster, finished_once: Project, tmp_path_factory: pytest.TempPathFactory
) -> OnCluster:
    """A project whose data is ready, and the cluster that trains on it."""
    project = copied(finished_once, tmp_path_factory.mktemp("prepared") / "project")
    return OnCluster(project, cluster)
