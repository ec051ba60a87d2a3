"""A picture of a campaign's report: a run over the tutorial's planted fault, photographed by
Chromium. Without Chromium the picture stays as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from style import PICTURES

DOCS = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--window-size=1000,820"),
)


def draw_all() -> None:
    """Write docs/pictures/report.png where a browser is installed."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("report.png is left as it is: no Chromium")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        campaign(page)
        picture = f"--screenshot={PICTURES / 'report.png'}"
        profile = f"--user-data-dir={folder}/profile"
        subprocess.run(
            [browser, *QUIET, profile, picture, page.as_uri()],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip


def campaign(page: Path) -> None:
    """Run a small campaign over f16 instructions and write its report."""
    command = [
        *(sys.executable, "-m", "gpuemu", "diff", "--subject", "examples.planted:mfma"),
        *("-i", "v_mfma_f32_*_f16", "-a", "gfx942", "--cases", "5000", "--modifiers", "none"),
        *("--out", str(page.parent / "campaign"), "--report", str(page)),
    ]
    paths = os.pathsep.join([str(DOCS), str(DOCS.parent)])
    done = subprocess.run(
        command, cwd=DOCS, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout + done.stderr
