"""Methods of papers, for comparison. Each method has a folder with a README. No other package imports the methods."""
