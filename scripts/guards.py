#!/usr/bin/env python3
"""Take each guard of tests/rust/simulation/guards.toml out of a copy of the library, and run the simulation.

    scripts/guards.py [--seeds FIRST..END] [NAME...]

Prints for each guard the first seed that fails without it. Fails if there is none. The copy is in target/guards; all
guards are in it, and the environment of a run says which one is out, so that it is compiled once. It has a target
folder of its own: in that of the library, cargo would take one for the other.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parent.parent
GUARDS = ROOT / "tests/rust/simulation/guards.toml"
COPY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "guards"
VARIABLE = "HOODOO_GUARD_OUT"
CRATES = ["hoodoo", *(f"hoodoo-{name}" for name in ("file-group", "format", "merge", "runtime", "storage", "timeline"))]
"""They are compiled with few optimizations, as for the other tests."""


def without(text: str, guard: dict[str, Any]) -> str:
    """Return the text of a file in which a guard can be taken out."""
    if text.count(guard["old"]) != 1:
        raise SystemExit(f"{guard['file']} does not have the guard {guard['name']} once: {guard['old']}")
    out = f'std::env::var("{VARIABLE}").is_ok_and(|out| out == "{guard["name"]}")'
    return text.replace(guard["old"], re.sub(r"\bOFF\b", lambda _: out, guard["new"]))


def copy(guards: list[dict[str, Any]]) -> None:
    """Write the copy. Files that are as they were keep their time, so that they are not compiled again."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        source, copied = ROOT / name, COPY / name
        if not source.is_file():
            copied.unlink(missing_ok=True)
            continue
        content = source.read_bytes()
        for guard in guards:
            if guard["file"] == name:
                content = without(content.decode(), guard).encode()
        if not copied.is_file() or copied.read_bytes() != content:
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(content)


def run(seeds: str, guard: str | None, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the simulation of the copy, without this guard."""
    few = [part for crate in CRATES for part in ("--config", f"profile.release.package.{crate}.opt-level=1")]
    if os.environ.get("CARGO_PROFILE_RELEASE_OPT_LEVEL") == "1":
        few = []
    command = ["cargo", "test", "--release", "--locked", "--quiet", "-p", "hoodoo", *few, "--test", "rust"]
    command += options or ["very_many_seeds", "--", "--ignored", "--nocapture"]
    more = {"SEEDS": seeds, "CARGO_TARGET_DIR": str(COPY / "target"), VARIABLE: guard or "none", "FIRST_FAILURE": "1"}
    environment = {**os.environ, **more}
    return subprocess.run(command, cwd=COPY, env=environment, check=False, capture_output=bool(guard), text=True)


def main() -> int:
    """Run the simulation once for each guard."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", help="in place of those of the guard, or 0..20000")
    arguments.add_argument("names", nargs="*")
    given = arguments.parse_args()
    guards = tomllib.loads(GUARDS.read_text())["guard"]
    copy(guards)
    if run("0..0", None, "--no-run").returncode != 0:
        return 1
    missed = []
    found_out = {guard["name"] for guard in guards if not guard.get("is_open")}
    # A guard in two files may have them in either.
    seeds = dict.fromkeys((guard["name"] for guard in guards), "0..20000")
    seeds |= {guard["name"]: guard["seeds"] for guard in guards if "seeds" in guard}
    for name, usual in seeds.items():
        if name not in (given.names or found_out):
            continue
        begun = time.monotonic()
        done = run(given.seeds or usual, name)
        found = re.search(r"seed (\d+) fails: ([^:]*): (.*)", done.stdout)
        if not found:
            missed.append(name)
        what = f"seed {found[1]}, {found[2]}: {found[3][:150]}" if found else "not found"
        print(f"{name:24} {time.monotonic() - begun:5.0f} s  {what}", flush=True)
    if missed:
        print(f"the simulation does not find that a guard is out: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
