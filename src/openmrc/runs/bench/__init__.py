"""Benchmarks of streams between processes: rows of measurements, streams with and without a fabric."""
