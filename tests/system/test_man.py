"""The man pages say what --help says: each option of each program and command, and none that is not there."""
import re
import unittest

import harness
from weft_case import SOURCE

MAN = SOURCE / "docs" / "man"
ALWAYS = {"-h", "--help", "--version", "--config"}
COMMANDS = ["run", "shell", "devices", "doctor", "up", "down", "status", "stat", "logs", "exec", "traffic", "nic", "capture",
            "fault", "demo", "keygen"]


def documented(page):
    """Section or subsection -> options that have a paragraph (.TP) of their own there, short and long."""
    found, section, tag = {}, "", False
    for line in (MAN / f"{page}.1").read_text().splitlines():
        if line.startswith((".SH ", ".SS ")):
            section = line[4:]
            found[section] = set()
        if tag:
            found[section] |= set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z0-9-]*", plain(line)))
        tag = line == ".TP"
    return found


def plain(line):
    return re.sub(r"\\f.", "", line).replace("\\-", "-")


def listed(program, *words):
    """The list that --help prints: long option -> (short one or "", name of its value or "")."""
    code, text, errors = harness.run_program(program, *words, "--help")
    assert code == 0, errors
    return {long: (short, value)
            for short, long, value in re.findall(r"^  (?:(-\w) \[ )?(--[a-z0-9-]+)(?: \])?(?: ([A-Z]+))?", text, re.M)}


def offered(program, *words):
    options = listed(program, *words)
    return set(options) | {short for short, _ in options.values() if short}


class ManTest(unittest.TestCase):
    def test_programs(self):
        for program in ("weft-switch", "weft-host", "weft-iou", "weft-sim"):
            with self.subTest(program=program):
                if harness.programs_missing(program):
                    self.skipTest(f"{program} is not built")
                self.assertEqual(documented(program)["OPTIONS"], offered(program))

    def test_variables_of_the_environment(self):
        read = set()
        for path in SOURCE.glob("*/**/*.cc"):
            if path.relative_to(SOURCE).parts[0] not in ("build", "tests", "sim", "bench"):
                read |= set(re.findall(r'"(WEFT_[A-Z_]*[A-Z])"', path.read_text()))
        self.assertIn("WEFT_FABRIC", read)
        told = set(re.findall(r"\bWEFT_[A-Z_]*[A-Z]\b", plain((MAN / "weft.1").read_text())))
        self.assertEqual(read - told, set(), "weft(1) does not name them")
        self.assertEqual(told - read, set(), "nothing reads them")

    def test_commands_of_weft(self):
        pages = documented("weft")
        self.assertEqual(pages["OPTIONS"], ALWAYS)
        self.assertEqual([name for name in pages if name.startswith("weft ")], [f"weft {name}" for name in COMMANDS])
        code, text, _ = harness.run_program("weft", "--help")
        self.assertEqual(re.findall(r"^  (\w+) ", text, re.M), COMMANDS)
        for command in COMMANDS:
            with self.subTest(command=command):
                self.assertEqual(pages[f"weft {command}"], offered("weft", command) - ALWAYS)

    def test_options_of_weft_mean_the_same_in_every_command(self):
        longs, shorts = {}, {}
        for command in COMMANDS:
            for long, (short, value) in listed("weft", command).items():
                self.assertEqual(longs.setdefault(long, (short, value)), (short, value), f"{command} {long}")
                if short:
                    self.assertEqual(shorts.setdefault(short, long), long, f"{command} {short}")

    def test_pages_name_pages_that_exist(self):
        for page in MAN.glob("*.1"):
            see = re.findall(r"(weft[a-z-]*)\(1\)", plain(page.read_text()))
            self.assertTrue(see, page)
            self.assertEqual([name for name in see if not (MAN / f"{name}.1").exists()], [], page)


if __name__ == "__main__":
    unittest.main()
