"""The report page: one self-contained HTML file, drawn from a run directory and from nothing else."""

from tests.harness.report.page import render, write

__all__ = ["render", "write"]
