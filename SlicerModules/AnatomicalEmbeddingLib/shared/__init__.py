"""The parts of the modules that belong to no one feature: nodes of the scene, views, signals, maps, panels."""
