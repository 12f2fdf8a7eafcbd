"""Names of structures of the body, with spellings, sides, parent structures and codes, from `Resources/Terms/*.csv`.

Each structure has one canonical name, if possible the name in TotalSegmentator: `kidney_left`, `rib_left_5`,
`vertebrae_T12`. Users may write other spellings; `canonical_name` converts them. To add a structure, add a row to a
file in `Resources/Terms`. To add a spelling of a structure, add it to the column `labels` of the structure's row.
"""
