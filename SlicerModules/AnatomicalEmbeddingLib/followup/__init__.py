"""Follow-up: a patient's studies in order of date, and the lesions in each study."""
