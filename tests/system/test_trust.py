"""What another user of the machine can do by making our directories, files and records before we do: nothing."""
import os
import pathlib
import shlex
import subprocess
import time
import unittest

import harness
from weft_case import WeftCase, alive

OWN, OTHER = 1000, 1234


@unittest.skipUnless(harness.IS_ROOT, "needs root: a second user, and a mount namespace with a /tmp of its own")
class TrustTest(WeftCase):
    COMMANDS = (["down"], ["status"], ["logs"], ["stat"], ["devices"], ["fault", "list"], ["fault", "s1", "drop", "50%"], ["nic", "h1"],
                ["capture", "s1", "--cells", "-o", "/tmp/out.pcapng"], ["traffic", "s1"], ["exec", "s1", "true"], ["run", "true"])

    def setUp(self):
        super().setUp()
        self.environment = {name: value for name, value in os.environ.items() if name not in ("WEFT_STATE_DIR", "XDG_RUNTIME_DIR")}
        # One process keeps the namespace; everything else enters it. The build is bound to /mnt, because it may be below /tmp.
        self.keeper = subprocess.Popen(["unshare", "-m", "sh", "-c", f"mount --bind {shlex.quote(str(self.bin.parent))} /mnt &&"
                                        " mount -t tmpfs -o mode=1777 none /tmp &&"
                                        " mount -t tmpfs -o mode=1777 none /dev/shm && echo ready && exec sleep 1000"],
                                       stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.keeper.stdout.close)
        self.addCleanup(self.keeper.wait)
        self.addCleanup(self.keeper.kill)
        self.assertEqual(self.keeper.stdout.readline(), "ready\n")
        self.root = pathlib.Path(f"/proc/{self.keeper.pid}/root")

    def as_user(self, user, *words, **extra):
        done = subprocess.run(["nsenter", f"--mount=/proc/{self.keeper.pid}/ns/mnt", *harness.as_user(user), *map(str, words)],
                              capture_output=True, text=True, timeout=60, env=dict(self.environment, **extra), cwd="/",
                              stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def other(self, script):
        self.assertEqual(self.as_user(OTHER, "sh", "-c", "umask 0; " + script)[0], 0, script)

    def victim(self):
        """A process of ours that has nothing to do with Weft, and the words by which a record would name it."""
        process = subprocess.Popen([*harness.as_user(OWN), "sleep", "1000"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        proc = pathlib.Path(f"/proc/{process.pid}")
        harness.wait_for(lambda: proc.stat().st_uid == OWN and (proc / "comm").read_text() == "sleep\n", "the process to be that user's")
        ticks = (proc / "stat").read_text().rsplit(")", 1)[1].split()[19]
        return process.pid, f"{process.pid} {ticks}"

    def test_every_command_refuses_a_directory_that_another_user_has_made(self):
        pid, words = self.victim()
        self.other("mkdir -m 0777 /tmp/weft-1000 /tmp/weft-1000/default")
        self.other(f"printf 'launcher {words}\\nready 1\\nprocess s1 weft-switch {words} 0\\n' >/tmp/weft-1000/default/run")
        for command in self.COMMANDS:
            for options in ([], ["--fabric", "default"]):
                with self.subTest(command=command, options=options):
                    code, _, err = self.as_user(OWN, "/mnt/bin/weft", command[0], *options, *command[1:])
                    self.assertNotEqual(code, 0)
                    self.assertIn("/tmp/weft-1000 belongs to user 1234", err)
                    self.assertIn("set WEFT_STATE_DIR to another", err)
        time.sleep(0.2)
        self.assertTrue(alive(pid))

    def test_links_are_not_followed(self):
        self.as_user(OWN, "sh", "-c", "mkdir -m 0700 /tmp/home /tmp/weft-1000; echo thesis >/tmp/home/thesis")
        self.as_user(OWN, "ln", "-s", "/tmp/home", "/tmp/weft-1000/lab")
        for command in (["down", "--fabric", "lab"], ["status", "--fabric", "lab"], ["down"], ["logs", "--fabric", "lab"]):
            code, _, err = self.as_user(OWN, "/mnt/bin/weft", *command)
            self.assertNotEqual(code, 0, command)
            self.assertIn("is a symbolic link", err)
        self.assertEqual((self.root / "tmp/home/thesis").read_text(), "thesis\n")
        self.as_user(OWN, "mv", "/tmp/weft-1000", "/tmp/real")
        self.other("ln -s /tmp/real /tmp/weft-1000")
        code, _, err = self.as_user(OWN, "/mnt/bin/weft", "down")
        self.assertNotEqual(code, 0)
        self.assertIn("is a symbolic link", err)

    def test_files_of_another_user_in_our_directory_are_not_believed(self):
        """It was open to all once, and has been closed since."""
        pid, words = self.victim()
        self.as_user(OWN, "sh", "-c", "mkdir -m 0700 /tmp/weft-1000; mkdir -m 0777 /tmp/weft-1000/default; chmod 755 /tmp/weft-1000;"
                     " chmod 777 /tmp/weft-1000/default")
        self.other(f"printf 'launcher {words}\\nready 1\\nprocess s1 weft-switch {words} 0\\n' >/tmp/weft-1000/default/run")
        self.as_user(OWN, "chmod", "700", "/tmp/weft-1000", "/tmp/weft-1000/default")
        self.as_user(OWN, "/mnt/bin/weft", "down", "--fabric", "default")
        time.sleep(0.2)
        self.assertTrue(alive(pid))

    def test_processes_of_other_users_are_left_alone(self):
        """A record of root's names one: numbers come again, and records are files."""
        pid, words = self.victim()
        state = self.path / "state"
        (state / "default").mkdir(mode=0o700, parents=True)
        state.chmod(0o700)
        (state / "default" / "run").write_text(f"launcher {words}\nready 1\nprocess s1 weft-switch {words} 0\n")
        code, _, err = self.weft("down", "--fabric", "default", WEFT_STATE_DIR=str(state))
        self.assertEqual(code, 0, err)
        time.sleep(0.2)
        self.assertTrue(alive(pid))


if __name__ == "__main__":
    unittest.main()
