"""S13: a batch run over the retained topic, by the very declaration of the stream, held against what the stream said.

`python -m effectively_once_jobs.reconcile SETTINGS.json --to FOLDER` for any declared pipeline whose windows go to a
topic. It imports the stream's transform and refuses nothing by itself: what a record means is decided in one place.
"""
