"""The papers' model of text: a sentence becomes a point of the body (text2atlas, Grujicic 2020).

It is a recipe next to the dictionary of `words`, which answers `anatemb find`; RESULTS compares the two.
"""
