"""Alignment of one volume of the scene with another volume."""
