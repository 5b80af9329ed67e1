"""A cluster and a project on it, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.endurance.submitted import OnCluster
from tests.workflow.cluster import Cluster, missing, start_cluster
from tests.workflow.project import tiny_project


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes; each test leaves them up and without jobs."""
    if reason := missing():
        pytest.skip(reason)
    with start_cluster() as started:
        yield started


@pytest.fixture(scope="module")
def prepared(cluster: Cluster, repository, tmp_path_factory: pytest.TempPathFactory) -> OnCluster:
    """A project whose data is ready, and the cluster that trains on it."""
    project = tiny_project(repository, tmp_path_factory.mktemp("prepared") / "project")
    project.make("results/data/tiny/k8/dataset.json")
    return OnCluster(project, cluster)
