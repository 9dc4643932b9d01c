"""The engine: claims runs, drives the kernel over them, commits what it decides, and runs activities. See `worker`."""
