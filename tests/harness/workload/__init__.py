"""The workload: what is sent to topic `events`, in which order, and no faster than the verdict allows."""
