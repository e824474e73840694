"""Starting the two servers, and talking to them."""

import base64
import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import time

# Written by name into the token file of the real server, which listens on loopback for a minute.
TOKEN = "differential"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A running server; `close` ends what was started, by process id."""

    def __init__(self, name, port, children, context, headers):
        self.name, self.port, self.children = name, port, children
        self.context, self.headers = context, headers
        self.connection = None

    def send(self, method, path, headers, body):
        for attempt in (1, 2):
            if self.connection is None:
                self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=30)
            try:
                self.connection.request(method, path, body=body, headers={**self.headers, **headers})
                answer = self.connection.getresponse()
                return answer.status, answer.headers, answer.read()
            except (http.client.HTTPException, OSError):
                # A server may close a connection it refused to read to the end.
                self.connection.close()
                self.connection = None
                if attempt == 2:
                    raise

    def close(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGKILL)
            child.wait()


def quiet(args, log):
    return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def kubernetes(api, etcd, directory):
    """kube-apiserver and etcd. The serving certificate is its own; the admin has a static token."""
    client, peer, port = free_port(), free_port(), free_port()
    at = lambda name: os.path.join(directory, name)
    with open(at("tokens.csv"), "w") as f:
        f.write(f'{TOKEN},kubernetes-admin,,"system:masters"\n')
    subprocess.run(["openssl", "genrsa", "-out", at("sa.key"), "2048"], check=True, capture_output=True)
    log = open(at("log"), "w")
    children = [
        quiet([
            etcd, "--data-dir", at("etcd"),
            f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        ], log),
        quiet([
            api, f"--etcd-servers=http://127.0.0.1:{client}", f"--secure-port={port}", "--bind-address=127.0.0.1",
            "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={at('tokens.csv')}", f"--cert-dir={at('certs')}",
            f"--service-account-key-file={at('sa.key')}", f"--service-account-signing-key-file={at('sa.key')}",
        ], log),
    ]
    server = Server("kubernetes", port, children, ssl._create_unverified_context(), {"Authorization": f"Bearer {TOKEN}"})
    deadline = time.monotonic() + 90
    while True:
        try:
            if server.send("GET", "/readyz", {}, None)[0] == 200:
                return server
        except OSError:
            pass
        if time.monotonic() > deadline or any(c.poll() is not None for c in children):
            server.close()
            raise SystemExit(f"kube-apiserver did not become ready:\n{open(at('log')).read()[-3000:]}")
        time.sleep(0.1)


def zaffre(binary, directory):
    kubeconfig = os.path.join(directory, "kubeconfig")
    child = subprocess.Popen(
        [binary, "serve", "kube", "--in-memory", "--controllers", "none", "--listen", "127.0.0.1:0", "--kubeconfig-out", kubeconfig],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )
    line = child.stdout.readline()
    if not line.startswith("ready "):
        raise SystemExit(f"zaffre did not become ready: {line!r}")
    text = open(kubeconfig).read()
    for part in ("client-certificate", "client-key"):
        data = re.search(part + r"-data:\s*(?:>-\s*)?(\S+)", text).group(1)
        with open(os.path.join(directory, part), "wb") as f:
            f.write(base64.b64decode(data))
    context = ssl._create_unverified_context()
    context.load_cert_chain(os.path.join(directory, "client-certificate"), os.path.join(directory, "client-key"))
    return Server("zaffre", int(line.rsplit(":", 1)[1]), [child], context, {})
