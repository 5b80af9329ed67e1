"""State of the data of deblurring, which the workflow plans with.

Rules call :class:`~vrtspike.deblurring.planning.data_plan.DataPlan`. Snakemake compares the file of
a shard only. The manifest and the store of each sequence behind it are checked here; sizes and
dates come first, and contents are read only where these differ, because a data set may have
thousands of sequences.
"""
