"""The viewer: scans next to each other in a browser, drawn by Slicer's own scene, nodes and slice views.

`app` starts and ends the program, `page` joins the features. `logic/` holds one feature a file, on the logic that the
Slicer modules use too (AnatomicalEmbeddingLib); `ui/` its part of the page; `web/` answers requests.
"""
