"""`make two-ways`: both ways to effectively-once under the same operators, records and kills, measured."""
