"""text2atlas (Grujicic 2020): a network that maps a sentence to a point of the body.

`anatemb find` does not use it, but the dictionary of `words`. RESULTS.md compares network and dictionary.
"""
