"""A program that runs with more rights than its user believes none of the variables that the user sets (docs/verbs.md)."""
import os
import shutil
import subprocess
import unittest

import harness
import netns
from weft_case import WeftCase

PROBE = harness.BIN.parent / "tests" / "secure_probe"
FABRIC = 'fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 8\n'
NOBODY = 65534


@unittest.skipUnless(PROBE.exists(), "libibverbs-dev was missing when this tree was built")
class SecureTest(WeftCase):
    """The probe is linked with the drop-in library and the preloaded object by absolute paths, because the loader itself ignores
    LD_LIBRARY_PATH and LD_PRELOAD for such a program."""

    def setUp(self):
        super().setUp()
        self.up(FABRIC)
        self.path.chmod(0o755)
        self.pages = self.state / "t" / "programs"
        self.tree = self.path / "tree"
        self.tree.mkdir(mode=0o777)
        self.own = {"WEFT_FABRIC": f"shm:{self.state}/t/s1.sock", "WEFT_NODE": "stranger", "WEFT_NODE_DIR": str(self.pages),
                    "WEFT_DEVICE": "planted0", "WEFT_DEBUG": "all", "WEFT_SYSFS": str(self.tree), "WEFT_IP": "10.0.0.1"}

    def run_probe(self, mode, user):
        """Lines of a copy of the probe that belongs to root and has the mode, run by the user."""
        program = self.path / "probe"
        shutil.copy(PROBE, program)
        program.chmod(mode)

        def become():
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        done = subprocess.run([program], capture_output=True, text=True, timeout=60, preexec_fn=become,
                              env=dict(self.environment, **self.own))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines(), done.stderr

    def test_variables_of_the_caller_do_not_reach_a_set_uid_program(self):
        netns.require_root()
        if os.statvfs(self.path).f_flag & os.ST_NOSUID:
            self.fail(f"{self.path} is mounted nosuid: set TMPDIR to a directory where set-uid programs work")
        said, _ = self.run_probe(0o755, 0)
        self.assertEqual(said, ["secure 0", "device planted0", "opened", "manager there", "tree planted0"])
        left = {path.name for path in self.pages.iterdir()}
        said, errors = self.run_probe(0o4755, NOBODY)  # its rights are root's, as before
        self.assertEqual(said, ["secure 1", "manager No such file or directory"])
        self.assertEqual(errors, "", "WEFT_DEBUG")
        self.assertEqual({path.name for path in self.pages.iterdir()}, left, "no page of a program in the fabric")

    def test_nor_a_program_with_another_group(self):
        netns.require_root()
        said, errors = self.run_probe(0o2755, NOBODY)
        self.assertEqual((said, errors), (["secure 1", "manager No such file or directory"], ""))


if __name__ == "__main__":
    unittest.main()
