"""Raw data: layouts, names, spike files and pictures."""
