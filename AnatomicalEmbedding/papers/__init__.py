"""Methods of papers, for comparison. Each has its own folder with a README. No other package imports them."""
