"""The proxy and the model socket without root: the sandbox's network is entered through user namespaces."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, socket, sys, threading
sys.path[:0] = sys.argv[1].split(":")
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.sandbox import Spec
class Hello(SimpleHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "5"); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("127.0.0.2", 0), Hello)
threading.Thread(target=server.serve_forever, daemon=True).start()
place = f"127.0.0.2:{server.server_address[1]}"
model = ModelEndpoint(f"http://{place}/v1")
with LocalEnv(network="allowlist", allow=(place,)) as env, env.open(Spec(model=model)) as box:
    out = {"allowed": box.exec(f"curl -sS http://{place}/").stdout.decode()}
    ask = "curl -sS -o /dev/null -w '%{http_code}' --noproxy '' http://127.0.0.1:22/"
    out["refused"] = box.exec(ask).stdout.decode()
    out["direct"] = box.exec(f"curl -sS --noproxy '*' http://{place}/").exit_code
    out["model"] = box.exec("curl -sS $ORCHARD_MODEL_URL/models").stdout.decode()
server.shutdown()
print(json.dumps(out))
"""


def test_an_ordinary_user_s_sandboxes_have_a_proxy_too(tmp_path: Path) -> None:
    python = "/usr/bin/python3"
    if os.geteuid() != 0:
        pytest.skip("then every other test has shown it")
    version = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if not Path(python).exists() or subprocess.run([python, "-c", version]).returncode:
        pytest.skip("no Python outside of root's reach that can load our packages")
    paths = ":".join([str(Path(__file__).parents[3] / "src"), *(p for p in sys.path if "site-packages" in p)])
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-i", "PATH=/usr/bin:/bin"]
    words = [*user, python, "-c", SCRIPT, paths]
    done = subprocess.run(words, capture_output=True, text=True, cwd="/", timeout=120)
    if "ModuleNotFoundError" in done.stderr or "unprivileged" in done.stderr:
        pytest.skip("this user cannot read our packages, or the machine keeps user namespaces from it")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"allowed": "hello", "refused": "403", "direct": 7, "model": "hello"}
