"""Studies of a patient in the order of their dates."""
