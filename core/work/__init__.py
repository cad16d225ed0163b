"""What is done for an interval; the engine knows it as `ports.Work`."""
