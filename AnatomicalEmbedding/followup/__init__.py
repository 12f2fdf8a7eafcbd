"""Follow-up: matching proposes places of lesions in other studies; a person confirms places and measures lesions."""
