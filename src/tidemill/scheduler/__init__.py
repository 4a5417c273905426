"""The scheduler: chooses the next job and its track. Pure: costs, periods, priorities, batches and the time are
arguments.
"""
