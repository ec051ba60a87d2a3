"""Make every picture of the documentation, and the README's table: a part of `make docs`."""

from __future__ import annotations

import errors
import layouts
import report
import speed
import tables


def main() -> None:
    """Write docs/pictures/*.svg and README.md."""
    for part in (layouts, errors, speed, report):
        part.draw_all()
    tables.write()


if __name__ == "__main__":
    main()
