"""Tuned kernels that ship: one folder per target, one folder per kernel, all listed in `index.json`."""
