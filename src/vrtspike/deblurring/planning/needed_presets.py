"""The presets that the targets of a plan need, by their data sets."""

from __future__ import annotations

from vrtspike.data.data_source import DataSource
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow


class NeededPresets:
    """The presets that targets need, gathered while Snakemake plans.

    Jobs on data know only the name of a data set, its wildcard. Two presets may use one name for
    different data, as long as no target needs both.

    Args:
        workflow: configuration with the presets.
    """

    def __init__(self, workflow: DeblurringWorkflow) -> None:
        self._workflow = workflow
        self._by_dataset: dict[str, str] = {}

    def add(self, preset: str, *, others_may_differ: bool) -> None:
        """Add a preset that a target needs.

        Args:
            preset: name of a preset of deblurring.
            others_may_differ: if true, presets that no target needs may have other data of the same
                name.

        Raises:
            ConfigError: if there is no such preset, results would lie among its sequences, or
                another preset has other data of the same name.
        """
        data_source = self._workflow.data_source(preset)
        self._workflow.require_results_elsewhere(data_source)
        former = self._by_dataset.setdefault(data_source.name, preset)
        self._workflow.require_same_data(preset, former)
        if not others_may_differ:
            self._workflow.preset_with(data_source.name)

    def preset_with(self, dataset_name: str) -> str:
        """Return a preset with the data set of a name: one that targets need, if any.

        Raises:
            ConfigError: as :meth:`DeblurringWorkflow.preset_with`, if targets need none.
        """
        if dataset_name in self._by_dataset:
            return self._by_dataset[dataset_name]
        return self._workflow.preset_with(dataset_name)

    def data_source(self, dataset_name: str) -> DataSource:
        """Return a data set by its name.

        Raises:
            ConfigError: as :meth:`preset_with`.
        """
        return self._workflow.data_source(self.preset_with(dataset_name))
