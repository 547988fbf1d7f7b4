#!/usr/bin/env python3
"""50 kills of each process in a row under load, and the memory of those that survive. See docs/testing.md.

  scripts/soak [--kills N] [--link shm|ipc] [--victim host|unit|switch] [--no-root] [--seed N]
"""
import argparse
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kills  # noqa: E402  (found through the line above)
import netns  # noqa: E402

WARM_KILLS = 10  # memory is compared with that after this many


def progress(victim, count):
    ending = "\n" if not sys.stdout.isatty() else "\r"
    if sys.stdout.isatty() or count % 10 == 0:
        print(f"  {victim}: {count} kills", end=ending, flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--link", choices=("shm", "ipc"), default="shm")
    parser.add_argument("--victim", choices=("host", "unit", "switch"), action="append")
    parser.add_argument("--no-root", action="store_true", help="frames over a Unix socket even where a TAP could be made")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    tap = os.geteuid() == 0 and not options.no_root
    netns.remove_stale()
    print(f"soak: {options.kills} kills of each, link {options.link}, {'TAP' if tap else 'unix socket'}, "
          f"--seed {options.seed}", flush=True)
    start = time.monotonic()
    for victim in options.victim or ("switch", "host", "unit"):
        with kills.KillRun(options.link, tap, options.seed) as run:
            run.kills(victim, options.kills, progress)
            run.check_memory(WARM_KILLS, options.kills)
            for name, history in run.rss.items():
                if len(history) > WARM_KILLS:
                    print(f"  {name}: {history[WARM_KILLS - 1] >> 10} KiB after {WARM_KILLS} kills of {victim}, "
                          f"{history[-1] >> 10} KiB after {len(history)}")
            print(f"  {run.summary()}", flush=True)
    print(f"soak: passed in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (AssertionError, OSError) as error:
        print(f"soak: FAILED: {error}", file=sys.stderr)
        sys.exit(1)
