"""A token issuer on a local HTTPS port: a key pair, a discovery document, a key set, and tokens signed with it.

The certificate comes from whoever starts us (ISSUER_CERT, ISSUER_KEY), signed by an authority that the simulator was
told to trust with --issuer-ca.
"""

import base64
import http.server
import json
import os
import ssl
import threading
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "api://AzureADTokenExchange"


def number(n):
    return base64.urlsafe_b64encode(n.to_bytes((n.bit_length() + 7) // 8, "big")).rstrip(b"=").decode()


class Issuer:
    def __init__(self):
        self.keys = {}
        self.rotate("first")
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path == "/.well-known/openid-configuration":
                    body = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                elif self.path == "/keys":
                    body = {"keys": [issuer.public(kid) for kid in issuer.keys]}
                else:
                    return self.send_error(404)
                raw = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.environ["ISSUER_CERT"], os.environ["ISSUER_KEY"])
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def rotate(self, kid):
        """From now on only this key is published, and signs."""
        self.kid = kid
        self.keys = {kid: rsa.generate_private_key(public_exponent=65537, key_size=2048)}

    def public(self, kid):
        n = self.keys[kid].public_key().public_numbers()
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": number(n.n), "e": number(n.e)}

    def token(self, subject, audience=AUDIENCE, issuer=None, expires=600):
        now = int(time.time())
        claims = {"iss": issuer or self.url, "sub": subject, "aud": audience, "iat": now - 5, "nbf": now - 5, "exp": now + expires}
        return jwt.encode(claims, self.keys[self.kid], algorithm="RS256", headers={"kid": self.kid})

    def close(self):
        self.server.shutdown()
        self.server.server_close()
