"""Embeds the scene's volumes in the background."""
