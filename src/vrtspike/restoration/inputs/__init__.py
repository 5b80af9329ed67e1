"""The clips that users give: their frames and spikes, from files, arrays or simulation."""
