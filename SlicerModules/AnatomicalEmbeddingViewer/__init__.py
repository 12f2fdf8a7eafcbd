"""The viewer: shows scans next to each other in a browser, with Slicer's own scene, nodes and slice views.

`app` starts and ends the program. `page` connects all features with the page. Each file in `logic/` is one feature; it
uses the same logic as the Slicer modules (AnatomicalEmbeddingLib). Each file in `ui/` is the part of the page for one
feature. `web/` answers requests.
"""
