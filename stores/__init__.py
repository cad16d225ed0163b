"""Where leases, checkpoints and records are kept; each passes `stores/testing.py`."""
