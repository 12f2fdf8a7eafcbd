"""Commands of the engine as child processes."""
