"""The command line: `anatemb COMMAND`, one file for each command."""

from .main import main

__all__ = ["main"]
