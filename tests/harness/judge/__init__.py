"""The judge: verdicts of runs from the files of their directories alone."""
