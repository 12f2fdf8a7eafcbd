"""text2atlas (Grujicic 2020): a network that maps a sentence to a point of the body.

`anatemb find` uses the dictionary of `words` instead. RESULTS.md compares the network with the dictionary.
"""
