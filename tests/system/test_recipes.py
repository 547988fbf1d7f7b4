"""The recipes of docs/packaging.md and docs/verbs.md, as they stand there, with stock programs for my_server and my_client."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
from test_run import has_library
from weft_case import SOURCE, WeftCase, die_with_test

PORT = 25000 + os.getpid() % 5000


RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13"}


class ReleasesTest(unittest.TestCase):
    """Containerfile and CI jobs are for both releases. scripts/package --check installs and runs what they name."""

    PAGE = (SOURCE / "docs" / "packaging.md").read_text()
    FILE = (SOURCE / "docs" / "examples" / "Containerfile").read_text()

    def lines(self, job):
        done = subprocess.run([SOURCE / "scripts" / "package", "--recipe", job], capture_output=True, text=True, timeout=20,
                              stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def job(self, title):
        return re.search(rf"^{title}:\n\n```yaml\n(.*?)^```", self.PAGE, re.M | re.S).group(1)

    def test_the_image_is_of_the_release_that_is_asked_for(self):
        self.assertEqual(re.findall(r"^FROM (.*)", self.FILE, re.M), ["debian:${RELEASE}-slim"])
        before, after = self.FILE.split("FROM ", 1)
        self.assertIn("\nARG RELEASE=bookworm\n", before, "FROM sees only what stands before it")
        self.assertIn("\nARG PACKAGES=build/package\nCOPY ${PACKAGES}/weft_*.deb /tmp/\n", after, "and COPY what stands behind FROM")
        self.assertIn("--build-arg RELEASE=trixie --build-arg PACKAGES=trixie", before)
        self.assertIn("apt-get install -y --no-install-recommends /tmp/weft_*.deb ibverbs-utils", self.lines("container"))

    def test_both_jobs_run_on_both_releases(self):
        github, gitlab = self.job("GitHub Actions"), self.job("GitLab CI")
        listed = f"[{', '.join(RELEASES)}]"
        self.assertIn(f"matrix:\n        release: {listed}\n", github)
        self.assertIn("container: debian:${{ matrix.release }}\n    env:\n      RELEASE: ${{ matrix.release }}\n", github)
        self.assertIn(f"matrix:\n      - RELEASE: {listed}\n", gitlab)
        self.assertIn("image: debian:$RELEASE\n", gitlab)
        self.assertEqual(len(re.findall("bookworm|trixie", github + gitlab)), 4, "no line is for one release alone")

    def test_the_page_says_what_differs(self):
        for release, name in RELEASES.items():
            self.assertRegex(self.PAGE, rf"{name}\s+in\s+`{release}/`")

    def test_jobs_have_the_same_commands_in_a_shell(self):
        commands = self.lines("github").splitlines()
        self.assertEqual([line.strip() for line in commands], self.lines("gitlab").splitlines())
        self.assertEqual(commands[1:], ["make", "weft run -- make check"])
        with tempfile.TemporaryDirectory(prefix="weft-test-") as scratch:
            for release in RELEASES:
                folder = pathlib.Path(scratch) / release
                folder.mkdir()
                (folder / "weft_1.0_amd64.deb").touch()
                say = "apt-get() { echo apt-get \"$@\"; }\n" + commands[0]
                done = subprocess.run(["bash", "-ec", say], capture_output=True, text=True, timeout=20, cwd=scratch,
                                      env=dict(os.environ, RELEASE=release), check=True)
                self.assertIn(f" ./{release}/weft_1.0_amd64.deb make gcc ", done.stdout)

    def test_an_unknown_recipe_is_refused_with_the_known_ones(self):
        done = subprocess.run([SOURCE / "scripts" / "package", "--recipe", "jenkins"], capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no recipe is called 'jenkins'; there are container, github and gitlab", done.stderr)

    def test_packages_of_this_release_are_not_tried_in_another(self):
        with tempfile.TemporaryDirectory(prefix="weft-test-") as scratch:
            (pathlib.Path(scratch) / "cmake").symlink_to("/bin/false")  # a failure builds nothing
            done = subprocess.run([SOURCE / "scripts" / "package", "--check", "--release", "sid"], capture_output=True, text=True,
                                  timeout=20, env=dict(os.environ, PATH=f"{scratch}:{os.environ['PATH']}"))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, "make them on sid and name their folder: --packages DIR")


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

    def follow(self, recipe, end="\nwait"):
        """Runs the lines of a recipe, then `end`, in a shell; how it ended, and what was said."""
        done = subprocess.run(["bash", "-ec", recipe + end], capture_output=True, text=True, timeout=60, cwd=self.path,
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

    def test_a_ci_job_whose_server_fails_says_so(self):
        listen = f"import socket, time; s = socket.create_server((\"\", {PORT})); time.sleep(2); raise SystemExit(4)"
        self.program("my_server", f"exec python3 -c '{listen}'")
        self.program("my_client", "exit 0")
        self.assertEqual(self.follow(self.ci_job(), "")[0], 4)

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
