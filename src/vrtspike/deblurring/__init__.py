"""The task deblurring: a preset's training, advice, plans and page.

Its settings, data, models, losses, metrics, restoration, evaluation and plots for papers are
packages of their own (``docs/architecture.md``, layers 12 to 19).
"""
