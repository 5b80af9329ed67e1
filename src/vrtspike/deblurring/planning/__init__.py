"""What the workflow asks about videos while it plans; as quick as :mod:`vrtspike.planning`."""
