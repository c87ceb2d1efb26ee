"""The driver: it declares epochs, runs them on Spark, and refuses to start where one could not be published."""
