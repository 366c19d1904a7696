"""Lets `pytest benchmarks/ --benchmark-only` find bench_*.py."""


def pytest_configure(config):
    config.addinivalue_line("python_files", "bench_*.py")
