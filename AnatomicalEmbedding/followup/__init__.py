"""Lesions of one patient across studies: places proposed by matching, confirmed by a person, measured and reported."""
