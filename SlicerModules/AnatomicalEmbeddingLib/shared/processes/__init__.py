"""Runs commands of the engine as child processes."""
