"""What Spark is asked for by its own API, as drivers, plans and histories name it."""

TASK_KILL, STAGE_CANCEL = "task_kill", "stage_cancel"
