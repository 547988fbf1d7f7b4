"""weft fault: rules in a running switch, by the words people type, seen by counters and by traffic."""
import json
import time

from weft_case import ECHO, WeftCase


class FaultTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.up(ECHO + 'nic = "echo"\n')

    def fault(self, *words):
        code, text, errors = self.weft("fault", *words)
        self.assertEqual(code, 0, errors)
        return text

    def faults(self):
        return json.loads(self.fault("list", "--json"))["faults"]

    def traffic(self):
        """Round trips through host and unit; how many were lost."""
        code, text, errors = self.weft("traffic", "h1", "--round-trips", "40", "--frames", "100", "--json")
        self.assertIn(code, (0, 1), errors)
        return json.loads(text)["lost"]

    def test_loss_is_repaired_and_counted(self):
        text = self.fault("h1", "drop", "--every", "3", "--seed", "7")
        self.assertRegex(text, r"fault s1:1 at s1:1 \(h1\): drop, every 3 cells, both ways, seed 7")
        self.assertEqual(self.traffic(), 0, "the adapters repeat what the switch loses")
        (rule,) = self.faults()
        self.assertGreater(rule["struck"], 10)
        self.assertGreaterEqual(rule["matched"], 3 * rule["struck"])
        counters = json.loads(self.weft("stat", "s1", "--json")[1])
        lost = sum(value for name, value in flat(counters).items() if name.endswith("drop_fault"))
        self.assertEqual(lost, self.faults()[0]["struck"])
        self.fault("clear", "s1:1")
        self.assertEqual(self.faults(), [])

    def test_a_delay_is_felt_and_ends_by_itself(self):
        self.fault("u1", "delay", "5ms", "--for", "30s")
        start = time.monotonic()
        self.traffic()
        self.assertGreater(time.monotonic() - start, 40 * 4 * 2 * 0.005 * 0.9, "each round trip passes the port twice")
        self.fault("clear")
        self.assertEqual(self.faults(), [])

    def test_a_script_sets_each_fault_at_its_time(self):
        script = self.path / "faults.toml"
        script.write_text('[[fault]]\ntarget = "s1:2"\nkind = "corrupt"\nchance = "1%"\n'
                          '[[fault]]\nat = "300ms"\ntarget = "h1"\nkind = "reorder"\nevery = 5\nseed = 9\n')
        start = time.monotonic()
        self.fault("script", script)
        self.assertGreaterEqual(time.monotonic() - start, 0.3)
        self.assertEqual([rule["kind"] for rule in self.faults()], ["corrupt", "reorder"])
        self.assertEqual(self.faults()[1]["seed"], 9)

    def test_a_frozen_node_goes_on_and_a_killed_one_is_restarted(self):
        self.assertIn("goes on", self.fault("h1", "freeze", "--for", "200ms"))
        before = self.pid("u1")
        self.fault("u1", "kill")
        deadline = time.monotonic() + 20
        while self.pid("u1") in (None, before) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertNotIn(self.pid("u1"), (None, before))

    def pid(self, name):
        nodes = json.loads(self.weft("status", "--json")[1])["nodes"]
        return next((node.get("pid") for node in nodes if node["name"] == name), None)

    def test_wrong_words_say_what_is_right(self):
        for words, hint in ((("h2", "drop"), "known:"), (("h1", "dorp"), "did you mean 'drop'"), (("h1", "delay"), "2ms"),
                            (("clear", "s9:1"), "no switch"), (("clear", "s1:99"), "no fault")):
            with self.subTest(words=words):
                code, _, errors = self.weft("fault", *words)
                self.assertEqual(code, 1)
                self.assertIn(hint, errors)
        self.assertEqual(self.weft("fault", "h1")[0], 2)


def flat(tree, prefix=""):
    """Nested counters by their full names."""
    if isinstance(tree, dict):
        return {name: value for key, sub in tree.items() for name, value in flat(sub, f"{prefix}.{key}").items()}
    if isinstance(tree, list):
        return {name: value for i, sub in enumerate(tree) for name, value in flat(sub, f"{prefix}.{i}").items()}
    return {prefix: tree} if isinstance(tree, (int, float)) else {}
