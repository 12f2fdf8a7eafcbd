"""The vocabulary of the body: names of structures, their spellings, sides, wholes and codes (`Resources/Terms/*.csv`).

A structure has one name, TotalSegmentator's where it has one: `kidney_left`, `rib_left_5`, `vertebrae_T12`. Other
spellings are accepted wherever names come in, and `canonical_name` turns them into that name. To add a structure, add a
row to a file of `Resources/Terms`; to add a spelling, write it into the column `labels` of its row.
"""
