"""Evaluations that only the benchmarks run; `Testing/benchmarks/evaluate.py` is their command."""
