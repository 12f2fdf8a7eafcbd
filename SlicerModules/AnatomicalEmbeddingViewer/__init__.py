"""The viewer shows scans next to each other in a browser. It uses the scene, nodes and slice views of 3D Slicer.

`app` starts and ends the program. `page` connects all features with the web page. Each file in `logic/` contains one
feature, which uses the same code as the Slicer modules (AnatomicalEmbeddingLib). Each file in `ui/` is the part of the
page for one feature. `web/` answers requests.
"""
