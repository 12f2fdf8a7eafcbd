"""What happens in the viewer, one feature a file; each publishes what its piece of the page shows."""

from . import translation

translation.offer()
