"""What a run measures about itself: time per section, memory, and where it ran."""
