"""Relative position regression (Lei 2021) and body part regression (Yan 2018, Schuhegger 2021)."""
