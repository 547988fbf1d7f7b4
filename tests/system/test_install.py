"""What cmake --install does to directories that it was not told to change."""
import pathlib
import re
import subprocess
import unittest

import harness
from weft_case import WeftCase

GENERATED = harness.BIN.parent / "cmake_install.cmake"
SOURCE = pathlib.Path(__file__).resolve().parents[2]


class InstallTest(WeftCase):
    @unittest.skipUnless(GENERATED.exists(), "not in a build directory")
    def test_nothing_but_the_copied_headers_is_removed(self):
        """The lines of a build, in a checkout whose path has a space, beside one whose path has none."""
        beside = self.path / "my"
        source = self.path / "my checkout"
        for place in (beside, source):
            (place / "base").mkdir(parents=True)
            (place / "base" / "clock.h").write_text('#include "base/time.h"\n')
        settings = re.search(r"set\(WEFT_FOLDERS [^)]*\)\s*set\(WEFT_SOURCE [^)]*\)\s*set\(WEFT_HEADERS [^)]*\)", GENERATED.read_text()).group(0)
        settings = settings.replace(str(harness.BIN.parent), str(source / "build")).replace(str(SOURCE), str(source))
        script = self.path / "install.cmake"
        script.write_text(f"{settings}\ninclude({SOURCE}/scripts/cmake/InstalledHeaders.cmake)\n")
        done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((beside / "base" / "clock.h").exists())
        self.assertEqual((source / "build" / "installed_headers" / "base" / "clock.h").read_text(), "#include <weft/base/time.h>\n")

    def test_a_directory_of_another_name_is_not_removed(self):
        (self.path / "kept").mkdir()
        done = subprocess.run(["cmake", f"-DWEFT_HEADERS={self.path}/kept", "-DWEFT_FOLDERS=base", f"-DWEFT_SOURCE={self.path}",
                               "-P", f"{SOURCE}/scripts/cmake/InstalledHeaders.cmake"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertTrue((self.path / "kept").exists())


if __name__ == "__main__":
    unittest.main()
