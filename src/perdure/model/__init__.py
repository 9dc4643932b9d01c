"""Frozen data that every layer speaks, without behaviour: ids, jobs, commands, turns, failures."""
