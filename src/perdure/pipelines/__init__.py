"""Pipelines: producers on a schedule, consumers on topics, one active handler run at a time (seed 004)."""
