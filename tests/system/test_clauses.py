"""scripts/clauses itself: what may make a row hold, and what may not. Works on a scratch tree with made-up tests and records."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "clauses"


class Clauses(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="weft-clauses-")
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        for folder in ("scripts", "docs", "tests/unit", "tests/system", "build/release/records"):
            (self.root / folder).mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "scripts" / "clauses")

    def run_script(self, *options):
        return subprocess.run([sys.executable, self.root / "scripts" / "clauses", *options], capture_output=True, text=True)

    def states(self, catalogue, source, tests):
        """ID -> state, for a catalogue, one source file and the records of its tests."""
        (self.root / "docs" / "requirements.tsv").write_text(catalogue)
        (self.root / "tests" / "unit" / "some_test.cc").write_text(source)
        suites = [{"name": "Some", "testsuite": [dict({"status": "RUN", "result": "COMPLETED"}, **t) for t in tests]}]
        (self.root / "build/release/records/test_some.json").write_text(json.dumps({"testsuites": suites}))
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stderr)
        return {line.split("  ")[0]: line.split("  ")[2] for line in done.stdout.splitlines()}

    def state(self, source, *tests, catalogue="SAN-QP-01\tMUST\n"):
        return self.states(catalogue, source, tests)["SAN-QP-01"]

    CITING = 'TEST(Some, one) { covers("SAN-QP-01"); EXPECT_TRUE(true); }\n'

    def test_an_assertion_after_the_citation_is_needed(self):
        self.assertEqual(self.state(self.CITING, {"name": "one", "req": "SAN-QP-01", "asserted": "SAN-QP-01"}), "holds")
        self.assertEqual(self.state(self.CITING, {"name": "one", "req": "SAN-QP-01"}), "no assertion")

    def test_each_of_several_rows_needs_an_assertion(self):
        source = self.CITING.replace("SAN-QP-01", "SAN-QP-01 SAN-QP-02")
        record = {"name": "one", "req": "SAN-QP-01 SAN-QP-02", "asserted": "SAN-QP-01"}  # the one assertion of the test
        states = self.states("SAN-QP-01\tMUST\nSAN-QP-02\tMUST\n", source, [record])
        self.assertEqual(states, {"SAN-QP-01": "holds", "SAN-QP-02": "no assertion"})
        self.assertEqual(self.run_script("--write").returncode, 0)
        self.assertIn("SAN-QP-02: no assertion: Some.one", self.run_script("--check").stderr)

    def instances(self, records):
        """Writes the records of a parameterised suite; {test: instances}."""
        tests = [{"name": f"{name}/{instance}", "status": "RUN", "result": "COMPLETED", "req": "SAN-QP-01", "asserted": "SAN-QP-01"}
                 for name, all_of in records.items() for instance in all_of]
        suites = [{"name": "Links/Some", "testsuite": tests}]
        (self.root / "build/release/records/test_some.json").write_text(json.dumps({"testsuites": suites}))

    def test_instances_of_a_parameterised_test_are_kept(self):
        (self.root / "docs" / "requirements.tsv").write_text("SAN-QP-01\tMUST\n")
        (self.root / "tests" / "unit" / "some_test.cc").write_text(
            "".join(self.CITING.replace("TEST(Some, one", f"TEST_P(Some, {name}") for name in ("one", "two")))
        self.instances({"one": ("mem", "shm"), "two": ("mem", "shm")})
        self.assertEqual(self.run_script("--write").returncode, 0)
        self.assertIn("| Links/Some | mem, shm |", (self.root / "docs" / "clauses.md").read_text())
        self.assertEqual(self.run_script("--check").returncode, 0)
        self.instances({"one": ("mem",), "two": ("mem",)})  # the list of the suite has become shorter
        self.assertIn("Links/Some: no test ran for shm", self.run_script("--check").stderr)
        self.instances({"one": ("mem", "shm"), "two": ("mem",)})  # one test left out by a filter
        self.assertIn("Links/Some.two did not run for shm", self.run_script("--check").stderr)
        self.instances({})  # no list
        told = self.run_script("--check").stderr
        self.assertIn("Links/Some: no test ran for mem, shm", told)
        self.assertIn("SAN-QP-01: not run", told)
        self.instances({"one": ("mem", "shm", "zmq"), "two": ("mem", "shm", "zmq")})  # one more is written down
        self.assertIn("out of date", self.run_script("--check").stderr)
        self.assertEqual(self.run_script("--write").returncode, 0)
        self.assertEqual(self.run_script("--check").returncode, 0)

    def test_a_failing_skipped_disabled_or_missing_test_takes_its_row_along(self):
        good = {"name": "two", "req": "SAN-QP-01", "asserted": "SAN-QP-01"}
        source = self.CITING + self.CITING.replace("one", "two")
        for record, expected in (({"name": "one", "failures": [{}]}, "fails"),  # in SetUp: it never came to its citation
                                 ({"name": "one", "result": "SKIPPED"}, "skipped"), (None, "not run")):
            with self.subTest(expected):
                self.assertEqual(self.state(source, *filter(None, (record, good))), expected)
        disabled = self.CITING.replace("one", "DISABLED_one") + self.CITING.replace("one", "two")
        self.assertEqual(self.state(disabled, {"name": "DISABLED_one", "status": "NOTRUN"}, good), "disabled")

    def test_every_part_of_a_row_is_cited(self):
        catalogue = "SAN-QP-01\tMUST\ta-b\n"
        source = self.CITING.replace("SAN-QP-01", "SAN-QP-01a")
        first = {"name": "one", "req": "SAN-QP-01a", "asserted": "SAN-QP-01a"}
        self.assertEqual(self.state(source, first, catalogue=catalogue), "in parts")
        second = {"name": "two", "req": "SAN-QP-01b", "asserted": "SAN-QP-01b"}
        self.assertEqual(self.state(source, first, second, catalogue=catalogue), "holds")

    def test_a_letter_that_the_row_does_not_have_is_refused(self):
        source = self.CITING.replace("SAN-QP-01", "SAN-QP-01z")
        record = {"name": "one", "req": "SAN-QP-01z", "asserted": "SAN-QP-01z"}
        for catalogue in ("SAN-QP-01\tMUST\n", "SAN-QP-01\tMUST\ta-b\n"):
            (self.root / "docs" / "requirements.tsv").write_text(catalogue)
            (self.root / "tests" / "unit" / "some_test.cc").write_text(source)
            suites = [{"name": "Some", "testsuite": [dict(record, status="RUN", result="COMPLETED")]}]
            (self.root / "build/release/records/test_some.json").write_text(json.dumps({"testsuites": suites}))
            done = self.run_script()
            self.assertEqual(done.returncode, 1)
            self.assertIn("not in the catalogue: SAN-QP-01z", done.stderr)

    def test_a_citation_is_a_literal(self):
        (self.root / "docs" / "requirements.tsv").write_text("SAN-QP-01\tMUST\n")
        (self.root / "tests" / "unit" / "some_test.cc").write_text("TEST(Some, one) { covers" "(id); EXPECT_TRUE(true); }\n")
        self.assertIn("some_test.cc:1: covers() takes literals", self.run_script("--cited").stderr)

    def test_a_citation_names_a_row(self):
        (self.root / "docs" / "requirements.tsv").write_text("SAN-QP-01\tMUST\n")
        for word, told in (("SAN-QP-01", ""), ("SAN-QP-02", "Some.one cites SAN-QP-02"), ("SAN-QP-01a", "Some.one cites SAN-QP-01a")):
            (self.root / "tests" / "unit" / "some_test.cc").write_text(self.CITING.replace("SAN-QP-01", word))
            self.assertIn(told, self.run_script("--cited").stderr, word)
        self.assertEqual(self.run_script("--cited").returncode, 1)

    def test_a_row_stands_in_the_table_and_its_chapter_on_the_page(self):
        passed = {"name": "one", "req": "SAN-QP-01", "asserted": "SAN-QP-01"}
        self.assertEqual(self.state(self.CITING, passed, catalogue="SAN-QP-01\tMUST\nSAN-QP-02\tMAY\t\tnot built\n"), "holds")
        self.assertEqual(self.run_script("--write").returncode, 0)
        self.assertIn("| SAN-QP-01 | MUST | holds | `Some.one` |", (self.root / "build" / "clauses.md").read_text())
        page = (self.root / "docs" / "clauses.md").read_text()
        self.assertIn("| SAN-QP | 2 | 1 | 1 | 1 | 1 |", page)
        self.assertNotIn("Some.one", page)

    def test_the_table_is_compared_with_the_catalogue(self):
        catalogue = self.root / "catalogue.md"
        catalogue.write_text("| SAN-QP-01 | Text. | p. 1 | W: cited as SAN-QP-01a\N{EN DASH}c | MUST |\n| SAN-QP-02 | Text. | p. 2 | W | SHOULD |\n")
        table = self.root / "docs" / "requirements.tsv"
        table.write_text("SAN-QP-01\tMUST\ta-c\nSAN-QP-02\tSHOULD\n")
        self.assertEqual(self.run_script("--compare", catalogue).returncode, 0)
        for wrong in ("SAN-QP-01\tMUST\ta-b\nSAN-QP-02\tSHOULD\n", "SAN-QP-01\tMUST\ta-c\nSAN-QP-02\tMUST\n", "SAN-QP-01\tMUST\ta-c\n"):
            table.write_text(wrong)
            self.assertEqual(self.run_script("--compare", catalogue).returncode, 1, wrong)

    def test_a_row_with_a_reason_does_not_hold(self):
        passed = {"name": "one", "req": "SAN-QP-01", "asserted": "SAN-QP-01"}
        self.assertEqual(self.state(self.CITING, passed, catalogue="SAN-QP-01\tMUST\t\tneeds a stream\n"), "in parts")

    def test_check_wants_a_test_or_a_reason(self):
        self.states("SAN-QP-01\tMUST\n", "", [])
        self.assertEqual(self.run_script("--write").returncode, 0)
        self.assertIn("SAN-QP-01 (MUST) has neither a test nor a reason", self.run_script("--check").stderr)
        self.states("SAN-QP-01\tMUST\t\tnot built: no queue pairs\n", "", [])
        self.assertIn("out of date", self.run_script("--check").stderr)
        self.assertEqual(self.run_script("--write").returncode, 0)
        self.assertEqual(self.run_script("--check").returncode, 0)

    def test_what_was_skipped_is_listed(self):
        self.states("SAN-QP-01\tMUST\n", "", [{"name": "one", "result": "SKIPPED", "message": "needs root"}])
        done = self.run_script("--skipped")
        self.assertEqual((done.returncode, done.stdout), (1, "skipped: Some.one: needs root\n"))
        self.states("SAN-QP-01\tMUST\n", "", [{"name": "one"}])
        self.assertEqual(self.run_script("--skipped").returncode, 0)
