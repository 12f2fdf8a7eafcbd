"""Smooth displacement fields, and how they are fitted to images. No map and no network is needed."""
