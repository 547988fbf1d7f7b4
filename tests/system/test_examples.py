"""Every file of docs/examples comes up through `weft up` and carries traffic."""
import json
import os
import socket
import threading
import unittest

import harness
import netns
from weft_case import EXAMPLES, WeftCase


class ExamplesTest(WeftCase):
    def copy(self, name, renamed=()):
        """The example in the scratch directory, with other names of namespaces."""
        text = (EXAMPLES / name).read_text()
        for old, new in renamed:
            self.assertIn(f'netns = "{old}"', text)
            text = text.replace(f'netns = "{old}"', f'netns = "{new}"')
        file = self.path / name
        file.write_text(text)
        return file

    def ping(self, node, target, *options):
        code, text, errors = self.weft("exec", node, "--", "ping", "-n", "-c", 3, "-i", "0.05", "-W", 5, *options, target)
        self.assertEqual(code, 0, f"{node} to {target}: {text}{errors}")

    def test_echo(self):
        self.up(file=EXAMPLES / "echo.toml")
        code, text, errors = self.weft("traffic", "-n", 1000)
        self.assertEqual(code, 0, text + errors)

    def test_lan_two_hosts_share_a_unit_and_one_uses_two(self):
        netns.require_root()
        self.up(file=EXAMPLES / "lan.toml")
        for host, target in (("h1", "10.9.1.254"), ("h1", "10.9.2.254"), ("h2", "10.9.1.254"), ("h2", "10.9.1.1")):
            with self.subTest(host=host, target=target):
                self.ping(host, target)
        self.ping("h1", "10.9.1.254", "-M", "do", "-s", 8900)  # jumbo frames

    def test_slirp_is_a_way_out_without_a_lan(self):
        """The host's kernel reaches slirp's gateway, and through it a server where the unit runs."""
        netns.require_root()
        place = netns.Namespace("slirp")
        self.addCleanup(place.delete)
        place.ip("addr", "add", "10.72.0.1/32", "dev", "lo")
        self.up(file=EXAMPLES / "slirp.toml", namespace=place)
        self.ping("h1", "10.0.2.2")
        content = os.urandom(200_000)
        with place.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
            server.bind(("10.72.0.1", 0))
            server.listen(1)
            thread = threading.Thread(target=serve_once, args=(server, content))
            thread.start()
            self.addCleanup(thread.join)
            copy = self.path / "copy"
            script = f"cat < /dev/tcp/10.72.0.1/{server.getsockname()[1]} > {copy}"
            code, _, errors = self.weft("exec", "h1", "--", "timeout", 20, "bash", "-c", script)
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(copy.read_bytes(), content)

    def test_machines_three_namespaces_with_keys(self):
        netns.require_root()
        places = {role: netns.Namespace(role) for role in ("left", "middle", "right")}
        for place in places.values():
            self.addCleanup(place.delete)
        middle = places["middle"]
        middle.ip("link", "add", "lan", "type", "bridge")
        middle.ip("addr", "add", "10.71.0.1/24", "dev", "lan")
        middle.ip("link", "set", "lan", "up")
        for number, role in ((2, "left"), (3, "right")):
            netns.connect(places[role], "fabric", f"10.71.0.{number}/24", middle, f"to-{role}", None)
            middle.ip("link", "set", f"to-{role}", "master", "lan")
        file = self.copy("machines.toml", [(role, place.name) for role, place in places.items()])

        code, _, errors = self.weft("up", file)
        self.assertEqual(code, 1)
        self.assertIn("no keys of s1, h1, u1 in", errors)
        words = errors.split("make them with weft ")[1].split()
        self.assertEqual(self.weft(*words)[0], 0, "the remedy that the message names")
        self.up(file=file)
        _, text, _ = self.weft("status", "--json")
        ports = {port["peer"]: (port["state"], port["carrier"])
                 for node in json.loads(text)["nodes"] for port in node["ports"]}
        self.assertEqual(ports, {"h1": ("up", "zmq"), "u1": ("up", "zmq")})
        code, text, errors = self.weft("traffic", "-n", 1000)
        self.assertEqual(code, 0, text + errors)
        received = int(middle.exec("cat", "/sys/class/net/to-left/statistics/rx_bytes"))
        self.assertGreater(received, 1000 * 1500, "the frames went over the cable")


def serve_once(server, content):
    server.settimeout(20)
    connection, _ = server.accept()
    with connection:
        connection.sendall(content)


if __name__ == "__main__":
    unittest.main()
