#!/usr/bin/env python3
"""Runs system test modules and writes a record as GoogleTest's programs do, for scripts/clauses.

  run.py [--records DIR] [--timeout SECONDS] [--list] MODULE [NAME...]

Exit codes: 0 passed, 1 failed, 77 when every test was skipped. After --timeout seconds it prints where it stands, ends
every process and removes every namespace it made, and fails.
"""
import argparse
import faulthandler
import functools
import importlib
import json
import os
import pathlib
import signal
import sys
import time
import traceback
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import netns  # noqa: E402  (found through the line above)

SKIPPED_EXIT = 77


def covers(ids):
    """Names the requirements a test shows to hold, as tests/support/requirement.h does. Assertions of setUp do not count. A test
    that names several evaluates as many different assertions."""
    def mark(test):
        @functools.wraps(test)
        def counted(case, *arguments, **named):
            case.evaluated = set()
            test(case, *arguments, **named)
            case.shown = " ".join(ids.split()[:len(case.evaluated)])
        counted.req = ids
        return counted
    return mark


def count_assertions():
    """Every assert method of unittest notes the line that calls it, so that a record says how many assertions a test evaluated. A loop
    is one assertion."""
    def counting(method):
        @functools.wraps(method)
        def call(case, *arguments, **named):
            caller = sys._getframe(1)
            if caller.f_globals.get("__name__") != "unittest.case":  # else an assertion of unittest that uses another
                vars(case).setdefault("evaluated", set()).add((caller.f_code.co_filename, caller.f_lineno))
            return method(case, *arguments, **named)
        return call
    for name in dir(unittest.TestCase):
        if name.startswith("assert"):
            setattr(unittest.TestCase, name, counting(getattr(unittest.TestCase, name)))


class RecordingResult(unittest.TextTestResult):
    """Keeps what GoogleTest would have written about each test."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.records = []
        self.started = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()
        self.records.append({"name": test._testMethodName, "suite": type(test).__name__, "status": "RUN",
                             "result": "COMPLETED"})
        req = getattr(getattr(test, test._testMethodName), "req", "")
        if req:
            self.records[-1]["req"] = req

    def stopTest(self, test):
        if getattr(test, "shown", ""):
            self.records[-1]["asserted"] = test.shown
        self.records[-1]["time"] = f"{time.monotonic() - self.started:.3f}s"
        super().stopTest(test)

    def fail_record(self, test, error):
        text = "".join(traceback.format_exception(*error))
        fabric = getattr(test, "fabric", None)
        if fabric is not None:  # what its processes said, before the clean-up
            self.stream.writeln(fabric.report())
            text += fabric.report()
        self.records[-1].setdefault("failures", []).append({"failure": text, "type": ""})

    def addError(self, test, error):
        super().addError(test, error)
        if self.records:
            self.fail_record(test, error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.fail_record(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.fail_record(test, error)

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.fail_record(test, error)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.records[-1].setdefault("failures", []).append({"failure": "unexpected success", "type": ""})

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.records:
            self.records[-1].update(result="SKIPPED", message=reason)


def write_record(folder, module, records):
    suites = {}
    for record in records:
        suites.setdefault(record.pop("suite"), []).append(record)
    document = {"testsuites": [{"name": name, "tests": len(tests), "testsuite": tests} for name, tests in suites.items()]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"test_system_{module.removeprefix('test_')}.json").write_text(json.dumps(document, indent=1) + "\n")


def arm_watchdog(seconds):
    def expire(_number, frame):
        print(f"run.py: not finished within {seconds} s; stands at", file=sys.stderr)
        traceback.print_stack(frame)
        netns.remove_all()
        os._exit(1)  # the kernel kills the children (harness.py)

    signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    faulthandler.dump_traceback_later(seconds + 10, exit=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=pathlib.Path)
    parser.add_argument("--timeout", type=int, default=100)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("module")
    parser.add_argument("names", nargs="*", help="CLASS or CLASS.test; all of the module without")
    options = parser.parse_args()
    count_assertions()
    module = importlib.import_module(options.module)
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(options.names, module) if options.names else loader.loadTestsFromModule(module)
    if options.list:
        for case in suite:
            for test in case:
                print(test.id())
        return 0
    # A shell ignores SIGINT for what it starts in the background, and so would the programs of the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arm_watchdog(options.timeout)
    netns.remove_stale()
    try:
        result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=RecordingResult).run(suite)
    finally:
        netns.remove_all()
    if options.records:
        write_record(options.records, options.module, result.records)
    if not result.wasSuccessful() or result.expectedFailures:  # a failure that is expected is a failure all the same
        return 1
    if result.testsRun and len(result.skipped) == result.testsRun:
        return SKIPPED_EXIT
    return 0 if result.testsRun else 1


if __name__ == "__main__":
    sys.modules["run"] = sys.modules["__main__"]  # test modules say `from run import covers`
    sys.exit(main())
