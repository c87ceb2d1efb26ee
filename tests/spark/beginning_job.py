"""A job that shows the rows it accepted, and no windows: for tests alone."""

from tests.spark.trials import with_rows

pipeline = with_rows()
