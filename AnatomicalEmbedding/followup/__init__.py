"""Lesion follow-up: matching proposes the places of lesions in other studies; a person confirms and measures them."""
