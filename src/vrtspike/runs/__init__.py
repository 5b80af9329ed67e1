"""Identity and files of a run, trained models by name."""
