"""The drill: what a pipeline runs on is destroyed, restored from a backup, and what that costs is measured."""
