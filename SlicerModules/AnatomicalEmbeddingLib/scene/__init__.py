"""Logic on MRML nodes without Qt: what the Slicer modules and the browser viewer share."""
