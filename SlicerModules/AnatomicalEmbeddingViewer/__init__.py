"""The tool in a browser: scans side by side, a point in one found in all, on Slicer's own scene, nodes and slice views.

`logic/` says what happens, on the logic that the Slicer modules share (AnatomicalEmbeddingLib); `ui/` holds the piece
of the page of the same name; `web/` is what the network sees. Started by `anatemb view`.
"""
