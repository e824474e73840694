"""What two answers have in common once everything accidental is gone."""

import json
import re

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
AGE = re.compile(r"^(\d+[dhms])+$")
HASH = re.compile(r"hash=[0-9A-F]+")
JWT = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")
HEADERS = ("Content-Type", "Warning", "Vary", "WWW-Authenticate", "Location", "Retry-After", "Cache-Control", "Allow")
ABSENT = "(absent)"


class Normaliser:
    """One per server: the n-th uid or version either server makes is the same thing."""

    def __init__(self, server):
        self.server = server
        self.uids, self.versions, self.generated = {}, {}, {}

    def text(self, s):
        s = UUID.sub(lambda m: self.uids.setdefault(m[0], f"<uid {len(self.uids)}>"), s)
        s = TIME.sub("<time>", s)
        s = HASH.sub("hash=<hash>", s)
        s = JWT.sub("<token>", s)
        s = s.replace(f"127.0.0.1:{self.server.port}", "<server>")
        for name, stand_in in self.generated.items():
            s = s.replace(name, stand_in)
        return s

    def value(self, v, key=None):
        if isinstance(v, dict):
            base, name = v.get("generateName"), v.get("name")
            if isinstance(base, str) and isinstance(name, str) and name.startswith(base):
                self.generated.setdefault(name, base + "<generated>")
            out = {}
            for k, x in v.items():
                if k == "uid" and isinstance(name, str) and isinstance(x, str) and UUID.fullmatch(x):
                    self.uids.setdefault(x, f"<uid of {name}>")
                if k == "resourceVersion" and isinstance(x, str) and x.isdigit():
                    out[k] = self.version(v, x)
                else:
                    out[k] = self.value(x, k)
            if out.get("kind") == "Status" and len((out.get("details") or {}).get("causes", [])) > 1:
                unordered(out)
            books = out.get("managedFields")
            if isinstance(books, list):
                # Ordered by time, which the two servers do not share.
                books.sort(key=lambda b: [str(b.get(k)) for k in ("manager", "operation", "subresource", "apiVersion")])
            return out
        if isinstance(v, list):
            if key == "cells":
                return ["<age>" if isinstance(x, str) and AGE.match(x) else self.value(x) for x in v]
            return [self.value(x) for x in v]
        return self.text(v) if isinstance(v, str) else v

    def version(self, meta, version):
        """An object's versions are counted; a list's depends on everything else the server did."""
        if "uid" not in meta:
            return "<version>"
        seen = self.versions.setdefault(meta["uid"], [])
        if version not in seen:
            seen.append(version)
        return f"<version {seen.index(version)}>"

    def body(self, data):
        """JSON, JSON lines (a watch), or text."""
        try:
            return self.value(json.loads(data))
        except ValueError:
            pass
        try:
            return [self.value(json.loads(line)) for line in data.decode().splitlines()]
        except ValueError:
            return self.text(data.decode(errors="replace"))

    def answer(self, status, headers, data):
        kept = {}
        for name in HEADERS:
            values = headers.get_all(name)
            if values:
                kept[name] = sorted(self.text(v) for v in values) if name == "Warning" else self.text(", ".join(values))
        kept["ETag"] = "present" if headers.get("ETag") else ABSENT
        return {"status": status, "headers": kept, "body": outline(self.body(data))}


def unordered(status):
    """Causes come in the order of a Go map; the message repeats them."""
    # Some checks run twice on an update; the same cause twice says nothing more.
    causes = {json.dumps(c, sort_keys=True): c for c in status["details"]["causes"]}
    status["details"]["causes"] = [causes[k] for k in sorted(causes)]
    if len(causes) == 1:
        return
    head, separator, _ = status["message"].partition(" is invalid: ")
    if separator:
        status["message"] = head + " is invalid, for these causes"


def outline(document):
    """An OpenAPI document without its prose, and without where a parameter is written."""
    if not isinstance(document, dict) or "components" not in document:
        return document

    def bare(v):
        if isinstance(v, dict):
            return {k: bare(x) for k, x in v.items() if not (k == "description" and isinstance(x, str))}
        return [bare(x) for x in v] if isinstance(v, list) else v

    def operations(path):
        common = {p["name"] for p in path.get("parameters", [])}
        return {
            method: sorted(common | {p["name"] for p in operation.get("parameters", [])})
            for method, operation in path.items()
            if method != "parameters"
        }

    paths = {name: operations(path) for name, path in document["paths"].items()}
    return {"paths": paths, "schemas": bare(document["components"].get("schemas"))}


def summary(answer):
    """What matters of an answer when the other server answered in another way."""
    body = answer.get("body")
    if isinstance(body, dict) and body.get("kind") == "Status":
        return {"status": answer["status"], "message": body.get("message")}
    return {"status": answer.get("status")}


def differences(a, b, path="$"):
    """(path, in a, in b) of everything that differs."""
    if isinstance(a, dict) and isinstance(b, dict):
        for k in sorted(set(a) | set(b)):
            if a.get(k, ABSENT) != b.get(k, ABSENT):
                yield from differences(a.get(k, ABSENT), b.get(k, ABSENT), f"{path}.{k}")
    elif isinstance(a, list) and isinstance(b, list):
        for i in range(max(len(a), len(b))):
            x, y = a[i] if i < len(a) else ABSENT, b[i] if i < len(b) else ABSENT
            if x != y:
                yield from differences(x, y, f"{path}[{i}]")
    elif a != b or type(a) is not type(b):
        yield path, a, b
