"""Lesion follow-up: the studies of a patient in order of date, and the lesions in each study."""
