"""Named structures: reads labelled scans, and finds the boxes of structures from examples or a structure library."""
