"""Code that several features use: nodes of the scene, views, signals, maps, panels."""
