"""Follow-up of the lesions of a patient over studies: matching proposes places, a person confirms and measures them."""
