"""The command line: `anatemb demo | info | embed | match | train | evaluate | cache`."""

from .main import main

__all__ = ["main"]
