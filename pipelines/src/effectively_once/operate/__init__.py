"""Commands of operators; they work beside a pipeline, or while it stands still."""
