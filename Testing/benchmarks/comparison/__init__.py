"""Other methods measured next to the engine, and the lesion pairs of Deep Lesion Tracker: for benchmarks only."""
