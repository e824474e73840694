"""An OCI client, skopeo, pushes and pulls an image with a token that az exposes.

    . env-file; SKOPEO=skopeo target/venv-az/bin/python interop/python/oci_check.py public
"""

import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import urllib.error
import urllib.parse
import urllib.request

import az_cli
from az_cli import CONFIG, az
from checks import check, expect, run

SKOPEO = os.environ.get("SKOPEO", "skopeo")
HERE = pathlib.Path(CONFIG.name)
REGISTRY = "ociregistry"
HOST = f"{REGISTRY}.azurecr.io"


def skopeo(*arguments, fails=False):
    out = subprocess.run([SKOPEO, "--insecure-policy", *arguments], capture_output=True, text=True, timeout=120)
    expect((out.returncode != 0) == fails, f"skopeo {' '.join(arguments[:4])}: {out.returncode} {out.stdout}{out.stderr}")
    return out.stdout + out.stderr


def token(registry=REGISTRY):
    """Docker's credentials with a token of the registry: the user is a number of noughts."""
    return "00000000-0000-0000-0000-000000000000:" + az(f"acr login -n {registry} --expose-token")["accessToken"]


def image(name, layers):
    """An OCI layout of one image, and its digest."""
    root = HERE / name
    (root / "blobs/sha256").mkdir(parents=True)

    def blob(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        (root / "blobs/sha256" / digest).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    parts, diffs = [], []
    for text in layers:
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            entry = tarfile.TarInfo("file")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
        # Packed, or skopeo packs it and the digests are others.
        parts.append(blob(gzip.compress(tar.getvalue(), mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip"))
        diffs.append("sha256:" + hashlib.sha256(tar.getvalue()).hexdigest())
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": diffs}}
    manifest = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"), "layers": parts,
    }
    described = blob(json.dumps(manifest).encode(), manifest["mediaType"])
    described["annotations"] = {"org.opencontainers.image.ref.name": "v1"}
    (root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (root / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    return f"oci:{root}:v1", described["digest"]


@check
def begin():
    az_cli.enter(planes=True)
    az_cli.login()
    az("group create -n oci -l westus2")
    az("provider register -n Microsoft.ContainerRegistry")
    az(f"acr create -g oci -n {REGISTRY} --sku Premium")


@check
def pushed_and_pulled():
    source, digest = image("one", [b"hello" * 1000, os.urandom(3 << 20)])
    creds = token()
    skopeo("copy", "--dest-creds", creds, source, f"docker://{HOST}/team/app:v1")
    seen = json.loads(skopeo("inspect", "--creds", creds, f"docker://{HOST}/team/app:v1"))
    expect(seen["Digest"] == digest and len(seen["Layers"]) == 2, f"{seen}")
    skopeo("copy", "--src-creds", creds, f"docker://{HOST}/team/app@{digest}", f"oci:{HERE / 'back'}:v1")
    back = json.loads((HERE / "back/index.json").read_text())["manifests"][0]["digest"]
    expect(back == digest, f"{back} is not {digest}")
    for blob in (HERE / "one/blobs/sha256").iterdir():
        expect((HERE / "back/blobs/sha256" / blob.name).read_bytes() == blob.read_bytes(), blob.name)
    expect(az(f"acr repository show -n {REGISTRY} --image team/app:v1")["digest"] == digest, "az sees the same")
    # From one registry to another, by the client and by the service.
    az(f"acr create -g oci -n {REGISTRY}two --sku Basic")
    skopeo("copy", "--src-creds", creds, "--dest-creds", token(f"{REGISTRY}two"), f"docker://{HOST}/team/app:v1", f"docker://{REGISTRY}two.azurecr.io/copy:v1")
    az(f"acr import -n {REGISTRY}two --source {HOST}/team/app:v1 --image imported:v1")
    for name in ["copy:v1", "imported:v1"]:
        expect(az(f"acr repository show -n {REGISTRY}two --image {name}")["digest"] == digest, name)


@check
def wrong_digests_and_wrong_people_write_nothing():
    creds = token()
    source, _ = image("bad", [b"one", b"two"])
    blobs = sorted((HERE / "bad/blobs/sha256").iterdir(), key=lambda p: p.stat().st_size)
    blobs[-1].write_bytes(b"\0" * blobs[-1].stat().st_size)
    skopeo("copy", "--dest-creds", creds, source, f"docker://{HOST}/bad:v1", fails=True)
    skopeo("copy", "--dest-creds", "nobody:wrong", image("other", [b"x"])[0], f"docker://{HOST}/bad:v1", fails=True)
    expect(az(f"acr repository list -n {REGISTRY}") == ["team/app"], "nothing of it is there")
    # By hand, because no client would.
    def ask(method, url, body=None, **headers):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data=body, method=method, headers=headers)) as a:
                return a.status, a.read(), a.headers
        except urllib.error.HTTPError as e:
            return e.code, e.read(), e.headers

    basic = {"Authorization": "Basic " + base64.b64encode(creds.encode()).decode()}
    status, body, _ = ask("GET", f"https://{HOST}/oauth2/token?service={HOST}&scope=repository:bad:push,pull", **basic)
    expect(status == 200, f"{status} {body}")
    auth = {"Authorization": "Bearer " + json.loads(body)["access_token"], "Content-Type": "application/octet-stream"}
    wrong = "sha256:" + hashlib.sha256(b"other").hexdigest()
    _, _, headers = ask("POST", f"https://{HOST}/v2/bad/blobs/uploads/", b"", **auth)
    at = urllib.parse.urljoin(f"https://{HOST}", headers["Location"])
    status, body, _ = ask("PUT", f"{at}{'&' if '?' in at else '?'}digest={wrong}", b"content", **auth)
    expect(status == 400 and b"DIGEST_INVALID" in body, f"{status} {body}")
    expect(ask("HEAD", f"https://{HOST}/v2/bad/blobs/{wrong}", **auth)[0] == 404, "nothing under the wrong digest")
    expect(az(f"acr repository list -n {REGISTRY}") == ["team/app"], "and no repository")


@check
def gone():
    az("group delete -n oci --yes")


az_cli.end(run(sys.argv[2:]))
