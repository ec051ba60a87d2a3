"""Give a docstring's doctest a section of its own, so that the reference shows it as an example.

In the sources an example stands at the end of a docstring without a heading.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Puts "Examples" above a docstring's first prompt, and "Notes" above a source behind it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change one docstring, before it is parsed."""
        if obj.docstring is None or "\nExamples\n" in obj.docstring.value:
            return
        text = re.sub(r"\n\n(?=>>> )", "\n\nExamples\n--------\n", obj.docstring.value, count=1)
        obj.docstring.value = re.sub(r"\n\n(?=Source: )", "\n\nNotes\n-----\n", text)
