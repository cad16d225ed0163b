"""Commands: programs that are called for an interval and report checkpoints themselves."""
