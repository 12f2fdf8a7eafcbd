"""A patient's studies by date, and lesions over time."""
