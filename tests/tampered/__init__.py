"""Evidence that was tampered with: thousands of small alterations of a run's files, each of which the judge catches."""
