"""Makes scheduled work safe."""
