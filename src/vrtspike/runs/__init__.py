"""Identity and files of a run, digests of code, trained models by name."""
