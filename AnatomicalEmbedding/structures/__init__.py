"""Named structures: labelled scans, boxes found from examples, margins with a stated recall, the shipped library."""
