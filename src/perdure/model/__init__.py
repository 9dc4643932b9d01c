"""Frozen data that every layer speaks: ids, jobs, commands, turns, failures. No behaviour beyond reading itself."""
