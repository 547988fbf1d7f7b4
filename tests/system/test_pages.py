"""Commands that pages show work when they are pasted, in order, into one shell."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import harness

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


if __name__ == "__main__":
    unittest.main()
