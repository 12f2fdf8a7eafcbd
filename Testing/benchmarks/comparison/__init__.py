"""Other methods that are compared with the engine, and the lesion pairs of Deep Lesion Tracker. For benchmarks only."""
