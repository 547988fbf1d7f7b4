"""The recipes of docs/packaging.md and docs/verbs.md, as they stand there, with stock programs for my_server and my_client."""
import os
import re
import shutil
import subprocess
import unittest

import harness
from test_run import has_library
from weft_case import SOURCE, WeftCase, die_with_test

PORT = 25000 + os.getpid() % 5000


@unittest.skipUnless(has_library(), "the drop-in libibverbs is not built")
@unittest.skipUnless(shutil.which("ibv_rc_pingpong"), "ibverbs-utils is not installed")
class RecipesTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_fabrics)

    def end_fabrics(self):
        self.weft("down", "--fabric", "ci")
        harness.wait_for(lambda: self.weft("status", "--fabric", "default")[0] != 0, "the fabric to end with its last program")

    def program(self, name, text):
        path = self.path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def follow(self, recipe):
        """Runs the lines of a recipe in a shell; how it ended, and what was said."""
        done = subprocess.run(["bash", "-ec", recipe + "\nwait"], capture_output=True, text=True, timeout=60, cwd=self.path,
                              stdin=subprocess.DEVNULL, preexec_fn=die_with_test,
                              env=dict(self.environment, PATH=f"{self.bin}:{os.environ['PATH']}", PREFIX=str(self.bin.parent)))
        return done.returncode, done.stdout + done.stderr

    def pingpong(self):
        self.program("my_server", f"exec ibv_rc_pingpong -p {PORT} -n 300")
        self.program("my_client", f'exec ibv_rc_pingpong -p {PORT} -n 300 "$@"')

    def ci_job(self):
        """The lines of docs/packaging.md for a server and its client in one job."""
        text = (SOURCE / "docs" / "packaging.md").read_text()
        lines = re.search(r"A server and its client in one job[^\n]*\n\n```sh\n(.*?)```", text, re.S).group(1)
        self.assertEqual(len(lines.splitlines()), 3)
        return lines.replace("18515", str(PORT))

    def without_launcher(self):
        text = (SOURCE / "docs" / "verbs.md").read_text()
        recipe = re.search(r"## Without the launcher\n.*?```sh\n(.*?)```", text, re.S).group(1)
        return recipe.replace("/tmp/weft-ci", str(self.state))

    def test_a_ci_job(self):
        self.pingpong()
        code, said = self.follow(self.ci_job())
        self.assertEqual((code, said.count("300 iters")), (0, 2), said)

    def test_a_ci_job_that_fails_says_so(self):
        self.program("my_server", f"exec python3 -c 'import socket, time; s = socket.create_server((\"\", {PORT})); time.sleep(2)'")
        self.program("my_client", "exit 3")
        self.assertEqual(self.follow(self.ci_job())[0], 3)

    def test_without_the_launcher(self):
        self.pingpong()
        self.file.rename(self.path / "fabric.toml")
        (self.path / "fabric.toml").write_text('fabric = "ci"\n[[switch]]\nname = "s1"\nspare_ports = 16\n')
        code, said = self.follow(self.without_launcher())
        self.assertEqual((code, said.count("300 iters")), (0, 2), said)

    def test_without_the_launcher_by_address(self):
        """librdmacm, which looks into the tree that stands for /sys."""
        if shutil.which("rping") is None or not (self.bin.parent / "lib/weft/libweft_preload.so").exists():
            self.skipTest("rdmacm-utils is not installed")
        self.program("my_server", f"exec rping -s -C 10 -V -p {PORT}")
        self.program("my_client", f'exec rping -c -C 10 -V -p {PORT} -a "$1"')
        (self.path / "fabric.toml").write_text('fabric = "ci"\n[[switch]]\nname = "s1"\nspare_ports = 16\n')
        recipe = self.without_launcher()
        code, said = self.follow(recipe + "\nweft doctor --json | grep -o '\"environment\",\"good\":true'")
        self.assertEqual(code, 0, said)
        self.assertIn('"environment","good":true', said)


if __name__ == "__main__":
    unittest.main()
