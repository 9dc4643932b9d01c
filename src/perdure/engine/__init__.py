"""The engine: claims runs, drives the kernel over them, commits what it decides, runs activities; begin at `worker`."""
