"""Films (radiographs): projections of CTs, training on them, and the points of a CT in a film of the patient."""
