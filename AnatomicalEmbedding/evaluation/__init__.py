"""Published protocols on labelled scans and synthetic patients; behind `anatemb evaluate`."""
