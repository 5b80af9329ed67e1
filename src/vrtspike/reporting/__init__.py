"""The report page, one HTML file that works offline; and packing a run for publication."""
