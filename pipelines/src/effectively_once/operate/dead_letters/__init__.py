"""The dead-letter topic, read and sent again."""
