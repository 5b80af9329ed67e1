"""The task deblurring: a preset's training, advice, plans and page.

Its settings, data, models, losses, metrics, restoration, evaluation and plots for papers are
packages of their own (``docs/layers.md``, layers 13 to 20).
"""
