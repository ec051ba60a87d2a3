"""`python -m gpuemu` is the command line."""

from .cli import main

main()
