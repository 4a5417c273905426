"""The scheduler chooses the next job and its track. Pure: profiles, batches and the time are arguments."""
