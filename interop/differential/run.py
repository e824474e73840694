#!/usr/bin/env python3
"""Plays the same requests against a real kube-apiserver and Zaffre, and reports every difference.

usage: KUBE_APISERVER=... ETCD=... ZAFFRE=... run.py [SCRIPT...]
"""

import json
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import compare
import servers

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "jsonpatch": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
ACCEPTS = {
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "partial": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "partiallist": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "aggregated": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
}


def substitute(text, answers):
    """`{{-1.metadata.uid}}` is a field of the answer before this one."""

    def value(m):
        v = answers[int(m[1])]
        for part in m[2].split("."):
            v = v[int(part)] if isinstance(v, list) else v[part]
        return str(v)

    return re.sub(r"\{\{(-\d+)\.([^}]+)\}\}", value, text)


def play(server, script):
    normaliser = compare.Normaliser(server)
    raw, out = [], []
    for step in script:
        headers = {"User-Agent": "differential/1", "Accept": "application/json"}
        if "accept" in step:
            headers["Accept"] = ACCEPTS.get(step["accept"], step["accept"])
        if "user" in step:
            headers["Impersonate-User"] = step["user"]
        headers.update(step.get("headers", {}))
        body = step.get("body")
        if body is not None:
            content = step.get("contentType", "json")
            headers.setdefault("Content-Type", TYPES.get(content, content))
            body = body if isinstance(body, str) else json.dumps(body)
            body = (substitute(body, raw) * step.get("repeat", 1)).encode()
        path = substitute(step["path"], raw)
        # Some of what a real server does takes a moment.
        time.sleep(step.get("pause", 0))
        deadline = time.monotonic() + 15
        try:
            status, answered, data = server.send(step["method"], path, headers, body)
            while status != step.get("until", status) and time.monotonic() < deadline:
                time.sleep(0.1)
                status, answered, data = server.send(step["method"], path, headers, body)
        except Exception as e:  # what one server cannot answer is a difference, not the end
            raw.append(None)
            out.append({"error": f"{type(e).__name__}: {e}"})
            continue
        try:
            raw.append(json.loads(data))
        except ValueError:
            raw.append(None)
        out.append(normaliser.answer(status, answered, data))
    return out


def expand(name, steps):
    """Steps written short: `"do": "POST /path"`, and plain strings for requests without a body."""
    for step in steps:
        step = {"do": step} if isinstance(step, str) else dict(step)
        if "do" in step:
            step["method"], step["path"] = step.pop("do").split(" ", 1)
        yield step


def known_differences():
    """(pattern for script and request, pattern for the place, reason)."""
    with open(os.path.join(HERE, "known.json")) as f:
        return [(re.compile(k["request"]), re.compile(k["at"]), k["reason"]) for k in json.load(f)]


def short(v):
    text = json.dumps(v, sort_keys=True)
    return text if len(text) <= 600 else text[:600] + "…"


def main():
    chosen = sys.argv[1:]
    if not chosen:
        directory = os.path.join(HERE, "scripts")
        chosen = [os.path.join(directory, n) for n in sorted(os.listdir(directory)) if n.endswith(".json")]
    scripts = []
    for path in chosen:
        with open(path) as f:
            name = os.path.basename(path).removesuffix(".json")
            scripts.append((name, list(expand(name, json.load(f)))))
    known, used = known_differences(), set()
    requests = unexpected = expected = 0
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        pair = []
        try:
            pair.append(servers.kubernetes(os.environ["KUBE_APISERVER"], os.environ["ETCD"], a))
            pair.append(servers.zaffre(os.environ["ZAFFRE"], b))
            for name, script in scripts:
                with ThreadPoolExecutor(2) as pool:
                    theirs, ours = pool.map(lambda s: play(s, script), pair)
                for step, want, got in zip(script, theirs, ours):
                    requests += 1
                    title = f"{name}: {step['method']} {step['path']}" + (f" # {step['note']}" if "note" in step else "")
                    lines = []
                    if want.get("status") != got.get("status"):
                        want, got = compare.summary(want), compare.summary(got)
                    for where, x, y in compare.differences(want, got):
                        matching = (k for k in known if k[0].search(title) and k[1].search(where))
                        reason = next(matching, None)
                        if reason:
                            used.add(reason)
                            expected += 1
                        else:
                            lines.append(f"  {where}\n    kubernetes {short(x)}\n    zaffre     {short(y)}")
                    if lines:
                        unexpected += 1
                        print(f"{title} [kubernetes {want.get('status')}, zaffre {got.get('status')}]")
                        print("\n".join(lines))
        finally:
            for server in pair:
                server.close()
    if not sys.argv[1:]:
        for k in known:
            if k not in used:
                print(f"no longer needed in known.json: {k[0].pattern} {k[1].pattern}")
    print(f"{requests} requests, {unexpected} answered differently, {expected} known differences")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
