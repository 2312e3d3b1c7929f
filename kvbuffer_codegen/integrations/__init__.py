"""Where the generated kernels enter other people's models: one file per library, each importing that library only."""
