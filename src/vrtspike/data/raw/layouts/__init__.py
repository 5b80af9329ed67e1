"""Layouts of data sets, the places of their frames and spikes: a module for each, and a table.

:mod:`vrtspike.data.raw.layouts.registry` finds the layout of a folder (``DATA.LAYOUT``
names one instead) and the files of its sequences.

Spikes are ``.dat`` or ``.npz`` files with the number of their blurry frame, or one for the whole
sequence. A data set may have none at all (GOPRO_Large as it is published). Folders that hold only
sharp frames (GOPRO_Large_all, X4K1000FPS) go through ``scripts/simulate.py`` first.

This package reads only names, sizes and dates. The workflow imports these modules while it plans,
so they stay within the standard library.
"""
