"""Commands that pages show work when they are pasted, in order, into one shell."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import harness
from weft_case import ECHO, WeftCase

SOURCE = pathlib.Path(os.environ.get("WEFT_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BLOCKS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What the test has done already, or what would run the tests in a test.
LEFT_OUT = re.compile(r"^(scripts/|export PATH=)")
# Commands that fail on purpose: the tutorial shows how a wrong key ends.
FAILS = re.compile(r"\./wrong ")


def commands(page):
    """The lines of a page's blocks of shell commands, in their order."""
    lines = (line for block in BLOCKS.findall(page.read_text()) for line in block.splitlines())
    return [line for line in lines if not LEFT_OUT.match(line)]


@unittest.skipUnless(shutil.which("ibv_rc_pingpong") and shutil.which("ib_write_bw"), "ibverbs-utils or perftest is not installed")
@unittest.skipUnless((harness.BIN.parent / "lib/weft/verbs/libibverbs.so.1").exists(), "the drop-in libibverbs is not built")
class PagesTest(unittest.TestCase):
    def paste(self, page):
        """What a shell says to the commands of the page, run from a directory that has the project's docs."""
        lines = commands(SOURCE / page)
        self.assertGreater(len(lines), 8, page)
        with tempfile.TemporaryDirectory(prefix="weft-test-") as scratch:
            state = pathlib.Path(scratch) / "state"
            (pathlib.Path(scratch) / "docs").symlink_to(SOURCE / "docs")
            environment = dict(os.environ, WEFT_STATE_DIR=str(state), PATH=f"{harness.BIN}:{os.environ['PATH']}")
            # What fails is named, and does not stop the rest.
            script = ["trap 'echo FAILED: $BASH_COMMAND' ERR"] + [f"{line} || true" if FAILS.search(line) else line for line in lines]
            try:
                done = subprocess.run(["bash", "-c", "\n".join([*script, "wait"])], cwd=scratch, env=environment, capture_output=True,
                                      text=True, timeout=90, stdin=subprocess.DEVNULL)
            finally:
                subprocess.run([harness.BIN / "weft", "down"], env=environment, capture_output=True, timeout=30, check=False)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        self.assertNotIn("FAILED", said)
        self.assertNotIn("several fabrics", said)
        return said

    def test_the_readme_can_be_pasted(self):
        said = self.paste("README.md")
        self.assertEqual(said.count("1000 iters"), 2, said)
        self.assertEqual(said.count("BW average"), 2, said)

    @unittest.skipUnless(shutil.which("cc") and pathlib.Path("/usr/include/rdma/rdma_cma.h").exists(), "librdmacm-dev is not installed")
    def test_the_tutorial_can_be_pasted(self):
        said = self.paste("docs/tutorial.md")
        self.assertIn("server: the client wrote 'hello over RDMA'", said)
        self.assertEqual(said.count("write: remote access error"), 2, said)
        self.assertIn("drop 1%, both ways", said)


TROUBLES = (SOURCE / "docs" / "troubleshooting.md").read_text()
# What stands for a word of the reader in the page's commands, and a word of that kind.
STANDS_FOR = {"PROGRAM": "true", "CLIENT": "true", "NODE": "h1", "NAME": "t"}
# Texts that other programs print.
FOREIGN = {"No IB devices found": "ibv_devinfo", "Failed to get IB devices list": "ibv_devinfo",
           "Couldn't connect to 127.0.0.1:18515": "ib_write_bw"}
PRODUCT = ("adapter base control fabric hca host_driver iou_driver management messages node preload rdma_cm session tca tools "
           "verbs").split()


def spans():
    """The page's words in backquotes, in their order."""
    return re.findall(r"`([^`]+)`", TROUBLES)


def message(text):
    """A message without its values, as it stands in a format string and as a page quotes it."""
    return re.sub(r"'[^']*'|\{[^}]*\}", "{}", text).removesuffix(": …")


def product_messages():
    """The texts in the sources of the product, those that go over several lines joined."""
    literal = r'"(?:[^"\\\n]|\\.)*"'
    found = []
    for folder in PRODUCT:
        for path in (SOURCE / folder).rglob("*.cc"):
            for chain in re.findall(rf"{literal}(?:\s*{literal})*", path.read_text()):
                found.append(message("".join(part[1:-1] for part in re.findall(literal, chain))))
    return found


class TroubleshootingTest(WeftCase):
    """docs/troubleshooting.md: its commands work, its messages are those of the product, its names are known."""

    def test_each_command_of_weft_works_as_written(self):
        self.up(ECHO.replace('name = "s1"\n', 'name = "s1"\nspare_ports = 4\n'))
        files = {"up": self.file, "capture": self.path / "cells.pcapng", "fault": self.path / "faults.toml"}
        files["fault"].write_text('[[fault]]\ntarget = "h1"\nkind = "drop"\nvalue = "1%"\nfor = "10ms"\nseed = 7\n')
        commands = sorted({span for span in spans() if re.match(r"weft \w+( |$)", span)}, key=lambda each: each.startswith("weft down"))
        self.assertGreater(len(commands), 12)
        with socket.create_server(("127.0.0.1", 0)) as server:
            for command in commands:
                words = [STANDS_FOR.get(word, word) for word in command.split()[1:]]
                words = [str(files[words[0]]) if word == "FILE" else word for word in words]
                words = [str(server.getsockname()[1]) if word == "18515" else word for word in words]
                with self.subTest(command=command):
                    if words in (["up"], ["run"]):
                        continue  # the name of a command in a sentence
                    if words[0] == "capture":
                        words += ["-c", "1"]
                        self.start("traffic", "h1", "--duration", "5", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    if words[0] == "stat":
                        words += ["--interval", "100"]
                    code, out, err = self.weft(*words)
                    self.assertEqual(code, 0, f"{words}: {out}{err}")

    def test_quoted_messages_are_those_of_the_product(self):
        known = product_messages()
        quotes = re.findall(r'"([^"]+)"', TROUBLES) + [span for span in spans() if span.startswith("weft verbs[")]
        self.assertGreater(len(quotes), 5)
        for quote in quotes:
            with self.subTest(quote=quote):
                if quote in FOREIGN:
                    program = shutil.which(FOREIGN[quote])
                    words = re.sub("[0-9.:]+$", "", quote).encode()
                    self.assertTrue(program is None or words.strip() in pathlib.Path(program).read_bytes(), "it says something else")
                    continue
                text = message(quote.partition("]: ")[2] or quote)
                self.assertTrue(any(text in each for each in known), text)

    def test_names_are_known(self):
        """Variables are in the manual, functions, types and constants in the headers of the stock libraries, files in the product."""
        manual = (SOURCE / "docs/man/weft.1").read_text().replace("\\", "")
        headers = "".join(path.read_text() for path in map(pathlib.Path, ("/usr/include/infiniband/verbs.h", "/usr/include/rdma/rdma_cma.h"))
                          if path.exists())
        for name in spans():
            for variable in re.findall(r"\bWEFT_\w+", name):
                self.assertIn(variable, manual)
            if headers and not shutil.which(name) and (match := re.fullmatch(r"(?:ibv_|IBV_|rdma_|RDMA_)\w+|ibv_wc\.(\w+)", name.rstrip("*"))):
                self.assertIn(match.group(1) or match.group(0), headers)

    def test_symptoms_appear_as_described(self):
        if not (harness.BIN.parent / "lib/weft/verbs/libibverbs.so.1").exists() or not shutil.which("ibv_devinfo"):
            self.skipTest("the drop-in libibverbs or ibverbs-utils is missing")
        self.addCleanup(self.weft, "down", "--fabric", "other")
        self.up(ECHO.replace('name = "s1"\n', 'name = "s1"\nspare_ports = 4\n'))
        self.assertRegex("".join(self.weft("run", "env", "-i", shutil.which("ibv_devinfo"))[1:]),
                         "No IB devices found|Failed to get IB devices list", "the one with, the other without RDMA in the kernel")
        self.assertRegex(self.weft("run", "env", "WEFT_NODE=h1", "ibv_devinfo")[2], r"^weft verbs\[\d+\]: no device: ")
        self.assertIn("no node 'x'", self.weft("stat", "x")[2])
        other = self.path / "other.toml"
        other.write_text(ECHO.replace('"t"', '"other"'))
        self.assertEqual(self.weft("up", "--detach", other)[0], 0)
        self.assertIn("there are several fabrics; choose with --fabric", self.weft("stat")[2])
        open_to_all = self.path / "open"
        open_to_all.mkdir(mode=0o755)
        said = self.weft("doctor", WEFT_STATE_DIR=str(open_to_all))
        self.assertIn("is not a directory of yours with mode 0700", said[1] + said[2])


if __name__ == "__main__":
    unittest.main()
