"""What an operator asks of a running platform: is it ready, where is it, what does it say, what to send along."""
