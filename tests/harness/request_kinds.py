"""What Spark can be asked to end while an epoch runs: words that the plan of a campaign and a driver share."""

TASK_KILL, STAGE_CANCEL = "task_kill", "stage_cancel"
