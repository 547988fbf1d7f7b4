"""Reads tests/stock/suites.toml: what the last runs of other projects' suites gave, and which of their tests fail for a known reason."""
import pathlib
import tomllib

LIMITS = pathlib.Path(__file__).resolve().parent / "suites.toml"


def content():
    return tomllib.loads(LIMITS.read_text())


def limits_of(name):
    """The tests of a suite that are known to fail: tables with `tests`, a regular expression, and `reason`."""
    return [limit for limit in content().get("limit", []) if limit["suite"] == name]


def section():
    """Markdown for docs/stock_programs.md."""
    known = content()
    lines = ["", "## Test suites of other projects", "",
             "`scripts/suites ucx`, `fabtests` or `mpi4py` takes a suite from the source package of the Debian release that runs here, and",
             "runs it on the release build; words behind the name choose tests. It exits with 1 if a test fails that",
             "`tests/stock/suites.toml` does not list with its reason. Both tables below are made of that file, where the counts of the first are",
             "entered by hand. No counts of UCX's suite are recorded.", "",
             "| Suite | Passed | Skipped by the suite, or left out | Failed | Date |", "|---|---|---|---|---|"]
    lines += [f"| {run['what']} | {run['passed']} | {run['skipped']} | {run['failed']} | {run['date']} |" for run in known.get("run", [])]
    if limits := known.get("limit", []):
        lines += ["", "| Tests that fail | Why |", "|---|---|"]
        lines += [f"| {limit['suite']}: {limit['title']} | {limit['reason']} |" for limit in limits]
    return lines
