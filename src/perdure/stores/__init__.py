"""Stores: where runs are kept.

`port` says what an engine asks of one; each room beside it is one answer.
"""
