"""Compares the instructions of the hot paths with their budget (bench/budget.toml). A path that has grown fails until its budget is changed."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib

BUDGET = pathlib.Path(__file__).resolve().parent / "budget.toml"
GROWTH = 0.03  # allowed growth of a path over its budget
# (path, other, factor): the path may cost at most `factor` times as much as the other, whatever the budget says.
RELATIONS = (
    ("LateCell", "CellAhead", 1.5),  # the first later packet tells that nothing is left to write
    ("LateCellPieces", "CellAhead", 40),  # a comparison with each later packet, and a copy for each piece that is left
    ("Direct100", "Direct1", 1.1),  # a message beside 99 memory windows that stand still
    ("CmIdOf20000", "CmIdOf2000", 1.2),  # linear
)
HEAD = """# User-mode instructions per unit of each hot path (bench/path_budget.cc), by the counter that was used, in the release build of this
# repository's container. A change that makes a path grow by more than 3 % renews them in its own commit and gives the reason:
#   scripts/bench --budget --renew
"""


def figures(text):
    return {line["name"]: line["value"] for line in map(json.loads, filter(lambda each: each.startswith("{"), text.splitlines()))}


def by_processor(program):
    """Path -> instructions; None if the kernel offers no counter."""
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    if done.returncode == 3:
        return None
    done.check_returncode()
    return figures(done.stdout)


COUNTED = re.compile(r"counted<.*?::(\w+),")


def inclusive_costs(text):
    """Path -> instructions of the calls of its counted(), from the text of callgrind's output file."""
    names, costs, path, called = {}, {}, None, False
    for line in text.splitlines():
        function = re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line)
        if function:
            if function[3]:
                names[function[2]] = function[3]
            if not function[1]:
                found = COUNTED.search(names[function[2]])
                path = found[1] if found else None
            continue
        if path and re.match(r"[+\-*\d]\S* \d+$", line):
            costs[path] = costs.get(path, 0) + int(line.split()[1])
    return costs


def by_callgrind(program):
    """The same by valgrind; None if it is not installed."""
    if shutil.which("valgrind") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, "--callgrind"],
                              capture_output=True, text=True, timeout=300)
        done.check_returncode()
        units, costs = figures(done.stdout), inclusive_costs(out.read_text())
    return {path: costs[path] / count for path, count in units.items()}


COUNTERS = {"processor": by_processor, "callgrind": by_callgrind}


def measured(program, wanted):
    """(counter, figures) of the first counter in `wanted` that works here; None if none works."""
    for counter in wanted:
        found = COUNTERS[counter](program)
        if found is not None:
            return counter, found
    return None


def read():
    return tomllib.loads(BUDGET.read_text()) if BUDGET.exists() else {}


def broken_relations(values):
    """A line for each path that costs too much beside another."""
    for path, other, factor in RELATIONS:
        if values.get(path, 0) > factor * values.get(other, 0):
            yield f"budget: {path} takes {values[path]:.1f} instructions, more than {factor} times the {values.get(other, 0):.1f} of {other}"


def renew(program):
    """Exit code. Renews each table of the budget, or none: a table that stays would fail with the next check by its counter."""
    budgets = {}
    for wanted in [[counter] for counter in COUNTERS if counter in read()] or [list(COUNTERS)]:
        found = measured(program, wanted)
        if found is None:
            print(f"budget: {' and '.join(wanted)} cannot count instructions here; nothing was renewed")
            return 1
        if broken := list(broken_relations(found[1])):
            print("\n".join(broken))
            return 1
        budgets[found[0]] = found[1]
    text = HEAD
    for counter in sorted(budgets):
        text += f"\n[{counter}]\n" + "".join(f"{path} = {value:.1f}\n" for path, value in budgets[counter].items())
    BUDGET.write_text(text)
    print(text, end="")
    return 0


def check(program):
    """Exit code. A counter without a budget is no failure, because two counters give different figures."""
    budgets = read()
    found = measured(program, [counter for counter in COUNTERS if counter in budgets])
    if found is None:
        print(f"budget: no counter with a budget ({', '.join(budgets) or 'none'}) works here: install valgrind (scripts/setup --develop)")
        return 1
    counter, values = found
    failed = False
    for path in sorted(budgets[counter].keys() | values.keys()):
        budget, value = budgets[counter].get(path), values.get(path)
        if budget is None or value is None:
            verdict = "has no budget" if budget is None else "is not counted any more"
        else:
            verdict = f"{value:10.1f} of {budget:10.1f} instructions ({value / budget - 1:+.1%}, {counter})"
        bad = budget is None or value is None or value > budget * (1 + GROWTH)
        print(f"{path:12} {verdict}{'  GROWN' if bad else ''}")
        failed |= bad
    broken = list(broken_relations(values))
    print("".join(f"{line}\n" for line in broken), end="")
    if failed:
        print("budget: make the path cheap again, or renew the budget in the same commit: scripts/bench --budget --renew")
    return 1 if failed or broken else 0
