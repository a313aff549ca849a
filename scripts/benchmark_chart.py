"""Draws `docs/upsert.svg` from the first table of `docs/benchmarks.md`: `python scripts/benchmark_chart.py`.

With `--check` it writes nothing, and fails when the chart is not the one that the table gives.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
CHART = ROOT / "docs" / "upsert.svg"
SECTION = "## Copy-on-write upsert\n"

TITLE = "Copy-on-write upsert, wall time in seconds (less is better)"
SUBTITLE = "2,000,000 rows of 17 columns, 200,000 changed and 20,000 new; 2 cores; median of 3; warm"

WIDTH, MARGIN, LABELS = 820, 24, 410
TOP, ROW, BAR = 84, 27, 15
VALUES = 56
"""Room behind the longest bar for its value."""

# Colours that are told apart in either scheme, and by those who do not tell red from green.
STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de; }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .dim { fill: #59636e; }
  .own { fill: #c2410c; }
  .other { fill: #7d8fa3; }
  .floor { fill: #b7c1cc; }
  .strong { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d; }
    text { fill: #f0f6fc; }
    .dim { fill: #9198a1; }
    .own { fill: #fb923c; }
    .other { fill: #66788c; }
    .floor { fill: #4a5663; }
  }
"""


def bars(page: str) -> list[tuple[str, float]]:
    """Gives what each row of the table was and took, the fastest first."""
    table = page.split(SECTION, maxsplit=1)[1].split("\n## ", maxsplit=1)[0].split("### ", maxsplit=1)[0]
    rows = re.findall(r"^\| (?!---)([^|]+?) \| ([\d.]+) \|", table, re.MULTILINE)
    return sorted(((label, float(wall)) for label, wall in rows), key=lambda bar: bar[1])


def draw(found: list[tuple[str, float]]) -> str:
    """Gives the chart as SVG."""
    height = TOP + ROW * len(found) + MARGIN
    longest = max(wall for _, wall in found)
    scale = (WIDTH - LABELS - MARGIN - VALUES) / longest
    about = ", ".join(f"{label.replace('**', '')} {wall:g}" for label, wall in found)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(TITLE)}</title>",
        f"<desc>{escape(about)}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="36">{escape(TITLE)}</text>',
        f'<text class="dim" x="{MARGIN}" y="58">{escape(SUBTITLE)}</text>',
    ]
    for number, (label, wall) in enumerate(found):
        own = "**" in label
        kind = "own" if own else "floor" if "floor" in label else "other"
        strong = ' class="strong"' if own else ""
        top, text = TOP + ROW * number, escape(label.replace("**", ""))
        base = top + BAR - 3
        lines += [
            f'<text{strong} x="{LABELS - 12}" y="{base}" text-anchor="end">{text}</text>',
            f'<rect class="{kind}" x="{LABELS}" y="{top}" width="{wall * scale:.1f}" height="{BAR}" rx="2"/>',
            f'<text{strong} x="{LABELS + wall * scale + 8:.1f}" y="{base}">{wall:.2f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    """Writes the chart, or compares it."""
    chart = draw(bars(PAGE.read_text(encoding="utf-8")))
    if "--check" not in sys.argv[1:]:
        CHART.write_text(chart, encoding="utf-8")
        return 0
    if CHART.read_text(encoding="utf-8") == chart:
        return 0
    print(f"{CHART.name} is not what {PAGE.name} gives: run python scripts/benchmark_chart.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
