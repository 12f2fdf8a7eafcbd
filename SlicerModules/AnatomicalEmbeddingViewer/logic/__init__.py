"""One feature of the viewer a file: `poll` continues its work, `publish` writes what the page shows into the state."""

from . import translation

translation.install()
