"""The kernel: jobs in, commands out, no I/O; begin reading at executor.

Runs what perdure.define describes; hosts above drive it.
"""
