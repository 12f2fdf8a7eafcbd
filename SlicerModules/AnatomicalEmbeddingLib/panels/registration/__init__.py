"""The panel that aligns volumes."""
