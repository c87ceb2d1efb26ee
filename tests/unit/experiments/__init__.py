"""Experiments without servers: what they send, who is killed, what is judged, and what they run beside a job."""
