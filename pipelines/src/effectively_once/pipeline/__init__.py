"""What an author defines: a pipeline with its sinks, windows and steps, and the settings that it is run with."""
