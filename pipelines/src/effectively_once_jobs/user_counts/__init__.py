"""S1: events per user and minute, and their sum per minute."""
