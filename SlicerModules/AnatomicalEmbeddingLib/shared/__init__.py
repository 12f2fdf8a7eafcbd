"""The parts of the modules that are of no one feature: nodes of the scene, views, signals; no Qt outside of `panels`."""
