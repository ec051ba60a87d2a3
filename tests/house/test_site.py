"""The site builds without a warning, holds every picture, and asks no other host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What a browser loads by itself; `<a href>` is followed by readers only.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed|object)\b[^>]*?\b(?:src|data)=["']?([^"'\s>]+)"""
    r"""|<link\b(?![^>]*\brel=["']?(?:canonical|prev|next))[^>]*?\bhref=["']?([^"'\s>]+)"""
    r"""|url\(["']?([^"')]+)|@import\s+["']([^"']+)"""
)
REMOTE = re.compile(r"(?:https?:)?//")


def remote(text: str) -> list[str]:
    """Return the addresses on other hosts that a page or style sheet loads."""
    found = ("".join(groups) for groups in LOADED.findall(text))
    return [address for address in found if REMOTE.match(address)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stdout + done.stderr
    return folder


def test_nothing_comes_from_another_host(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(files) > 10
    for file in files:
        assert not remote(file.read_text(encoding="utf-8")), file


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example.org/x.js"></script>',
        "<script async src=//cdn.example.org/x.js></script>",
        '<link rel="stylesheet" href="https://fonts.example.org/css">',
        '<link rel=preconnect href="https://fonts.example.org">',
        '<img alt="x" src="http://example.org/x.png">',
        "@import 'https://example.org/x.css';",
        "body { background: url(https://example.org/x.png) }",
    ],
)
def test_what_would_be_found(text: str) -> None:
    assert len(remote(text)) == 1
    assert not remote(re.sub(r"(https?:)?//[a-z.]+/?", "", text))


def test_pages_show_pictures_that_exist(site: Path) -> None:
    shown = set()
    for page in site.glob("*.html"):
        for source in re.findall(r'<img[^>]*src="([^"]+)"', page.read_text(encoding="utf-8")):
            assert (site / source).is_file(), f"{page.name}: {source}"
            shown.add(Path(source).name)
    made = {path.name for path in (ROOT / "docs" / "pictures").glob("*.[ps][nv]g")}
    assert made <= shown, f"nowhere shown: {made - shown}"


def test_formulas_are_mathml(site: Path) -> None:
    text = (site / "numerics.html").read_text(encoding="utf-8")
    assert text.count('display="block"') >= 6
    assert "$" not in re.sub(r"<(code|script|style)\b.*?</\1>", "", text, flags=re.S)
