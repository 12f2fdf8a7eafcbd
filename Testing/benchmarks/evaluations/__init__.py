"""Evaluations that only the benchmarks use. The script `Testing/benchmarks/evaluate.py` runs them."""
