"""Start and end of trainings: devices, processes, torchrun, signals."""
