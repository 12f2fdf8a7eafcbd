"""The spine of a scan: its vertebrae in their order, and the level of a point, of a slice or of a structure.

A **level** is the number of a vertebra, such as L3. Neighbouring vertebrae look alike, and organs lie up to one level
higher or lower in one patient than in another. So a coordinate or a similar tissue may be one level off. This package
numbers all vertebrae of a scan in their order (`fitting`), and says at which places the level is certain.

The package knows no map and no network: `embedding` gives it coordinates and boxes of organs as arrays
(`embedding.spine_reading`), and stores the `Spine` in the map. So `embedding`, `matching`, `structures` and `words` can
all use it. The list of all vertebrae, discs, ribs and slices of a scan is in `words.scan_levels`, because it needs the
places of ribs.
"""
