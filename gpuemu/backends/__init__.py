"""What runs a validated call: CUDA, the host build of the same sources, and array bridges."""
