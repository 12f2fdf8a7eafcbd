"""Colours of points and lines in the views: GREEN for what is sure, AMBER for what a person should look at.

Their means are above a half: VTK then draws a black shadow below names, legible on every tissue, and a white one else.
"""

GREEN, AMBER = (0.31, 0.86, 0.42), (1.0, 0.65, 0.1)
