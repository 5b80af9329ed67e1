"""What every evaluation has: names of files, the device it computes on."""
