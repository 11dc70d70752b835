"""The node daemon: reads, keeps in a write-ahead log, publishes. Never changes a device, never prices."""
