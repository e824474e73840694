"""The official Python client against the server in KUBECONFIG.

Prints `ok <name>` per check and exits 1 at the end if any failed, with the reason of each. No test
framework: the only thing to install is the client itself. Every check works in a namespace of its own, so
they do not depend on each other's leftovers, and waits by watching, never by sleeping.

    KUBECONFIG=... target/venv/bin/python interop/python/test_kubernetes.py [name ...]
"""

import contextlib
import itertools
import json
import os
import queue
import sys
import tempfile
import threading
import traceback

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

DEADLINE = 30  # seconds that any single watch may take
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


@contextlib.contextmanager
def refused(status, reason):
    """The block must fail with exactly this answer."""
    try:
        yield
    except ApiException as e:
        # The typed client gives the body as text, the dynamic one as bytes.
        answer = json.loads(e.body)
        expect(e.status == status == answer["code"], f"status {e.status}, want {status}: {answer}")
        expect(answer["reason"] == reason, f"want reason {reason}: {answer}")
    else:
        raise AssertionError(f"accepted, want {status} {reason}")


class World:
    """One namespace and the clients pointed at it."""

    def __init__(self):
        self.api = client.ApiClient()
        self.scratch = tempfile.TemporaryDirectory()
        self.caches = itertools.count()
        self.core = client.CoreV1Api(self.api)
        self.apps = client.AppsV1Api(self.api)
        made = self.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(generate_name="python-")))
        self.ns = made.metadata.name
        expect(self.ns.startswith("python-") and len(self.ns) == len("python-") + 5, f"generateName gave {self.ns}")

    def dynamic(self):
        """A dynamic client that knows nothing yet: by default it keeps discovery in a shared file per host and port."""
        cache = os.path.join(self.scratch.name, f"discovery-{next(self.caches)}.json")
        return dynamic.DynamicClient(self.api, cache_file=cache)

    def close(self):
        # Whether the namespace goes away entirely is the namespace controller's affair.
        with contextlib.suppress(ApiException):
            self.core.delete_namespace(self.ns)
        self.api.close()
        self.scratch.cleanup()


def config_map(name, data=None, labels=None):
    return client.V1ConfigMap(
        api_version="v1",
        kind="ConfigMap",
        metadata=client.V1ObjectMeta(name=name, labels=labels),
        data=data if data is not None else {"k": "v"},
    )


def deployment(name):
    labels = {"app": name}
    container = client.V1Container(name="web", image="registry.example/web:1")
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name=name, labels=labels),
        spec=client.V1DeploymentSpec(
            replicas=2,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
            ),
        ),
    )


@check
def configmap_crud(w):
    made = w.core.create_namespaced_config_map(w.ns, config_map("a"))
    expect(made.metadata.uid and made.metadata.resource_version, "no uid or resourceVersion")
    with refused(409, "AlreadyExists"):
        w.core.create_namespaced_config_map(w.ns, config_map("a"))

    read = w.core.read_namespaced_config_map("a", w.ns)
    expect(read.data == {"k": "v"} and read.metadata.uid == made.metadata.uid, f"read back {read.data}")

    read.data["k"] = "w"
    replaced = w.core.replace_namespaced_config_map("a", w.ns, read)
    expect(replaced.metadata.resource_version != made.metadata.resource_version, "resourceVersion did not move")
    with refused(409, "Conflict"):
        w.core.replace_namespaced_config_map("a", w.ns, read)  # still carries the old version

    same = w.core.replace_namespaced_config_map("a", w.ns, replaced)
    expect(same.metadata.resource_version == replaced.metadata.resource_version, "a no-op write made a new version")

    dry = w.core.create_namespaced_config_map(w.ns, config_map("dry"), dry_run="All")
    expect(dry.metadata.name == "dry", "dry run gives the object")
    with refused(404, "NotFound"):
        w.core.read_namespaced_config_map("dry", w.ns)

    gone = w.core.delete_namespaced_config_map("a", w.ns)
    expect(gone.status == "Success" and gone.details.uid == made.metadata.uid, f"delete answered {gone}")
    with refused(404, "NotFound"):
        w.core.read_namespaced_config_map("a", w.ns)
    with refused(422, "Invalid"):
        w.core.create_namespaced_config_map(w.ns, config_map("Not_A_Name"))


@check
def namespace_lifecycle(w):
    read = w.core.read_namespace(w.ns)
    expect(read.status.phase == "Active", f"phase {read.status.phase}")
    expect(read.metadata.labels.get("kubernetes.io/metadata.name") == w.ns, f"labels {read.metadata.labels}")
    expect("kubernetes" in (read.spec.finalizers or []), f"finalizers {read.spec.finalizers}")
    with refused(404, "NotFound"):
        w.core.create_namespaced_config_map(w.ns + "-absent", config_map("a"))


@check
def deployment_defaults_scale_and_generation(w):
    made = w.apps.create_namespaced_deployment(w.ns, deployment("web"))
    expect(made.metadata.generation == 1, f"generation {made.metadata.generation}")
    spec, pod = made.spec, made.spec.template.spec
    expect(spec.strategy.type == "RollingUpdate" and spec.revision_history_limit == 10, "deployment not defaulted")
    expect(pod.restart_policy == "Always" and pod.containers[0].image_pull_policy == "IfNotPresent", "pod not defaulted")

    scale = w.apps.read_namespaced_deployment_scale("web", w.ns)
    expect(scale.spec.replicas == 2, f"scale says {scale.spec.replicas}")
    scale.spec.replicas = 5
    w.apps.replace_namespaced_deployment_scale("web", w.ns, scale)
    read = w.apps.read_namespaced_deployment("web", w.ns)
    expect(read.spec.replicas == 5, "scale did not reach the deployment")
    expect(read.metadata.generation >= 2, "generation did not move on a spec change")

    generation = read.metadata.generation
    status = {"status": {"observedGeneration": generation, "replicas": 5}, "spec": {"replicas": 9}}
    patched = w.apps.patch_namespaced_deployment_status("web", w.ns, status)
    expect(patched.status.observed_generation == generation, "status not written")
    expect(patched.spec.replicas == 5, "the status endpoint wrote the spec")
    w.apps.delete_namespaced_deployment("web", w.ns, propagation_policy="Background")


@check
def patch_types(w):
    w.apps.create_namespaced_deployment(w.ns, deployment("p"))
    # The client picks strategic merge for a dictionary: containers merge by name.
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "registry.example/side:1"}]}}}}
    got = w.apps.patch_namespaced_deployment("p", w.ns, side)
    names = sorted(c.name for c in got.spec.template.spec.containers)
    expect(names == ["side", "web"], f"strategic merge gave {names}")

    # A list is a JSON patch.
    got = w.apps.patch_namespaced_deployment("p", w.ns, [{"op": "replace", "path": "/spec/replicas", "value": 7}])
    expect(got.spec.replicas == 7, f"JSON patch gave {got.spec.replicas}")
    with refused(422, "Invalid"):
        w.apps.patch_namespaced_deployment("p", w.ns, [{"op": "test", "path": "/spec/replicas", "value": 1}])

    # Merge patch replaces lists, and null deletes.
    resource = w.dynamic().resources.get(api_version="v1", kind="ConfigMap")
    w.core.create_namespaced_config_map(w.ns, config_map("m", {"a": "1", "b": "2"}))
    got = resource.patch(
        body={"data": {"a": None, "c": "3"}}, name="m", namespace=w.ns, content_type="application/merge-patch+json"
    )
    expect(got.data.to_dict() == {"b": "2", "c": "3"}, f"merge patch gave {got.data}")


@check
def watch_sees_everything_and_resumes(w):
    start = w.core.list_namespaced_config_map(w.ns).metadata.resource_version

    def act():
        w.core.create_namespaced_config_map(w.ns, config_map("seen"))
        w.core.patch_namespaced_config_map("seen", w.ns, {"data": {"k": "2"}})
        w.core.delete_namespaced_config_map("seen", w.ns)

    def events(since):
        stream = watch.Watch()
        for event in stream.stream(
            w.core.list_namespaced_config_map, w.ns, resource_version=since, timeout_seconds=DEADLINE,
            field_selector="metadata.name=seen",
        ):
            yield event["type"], event["object"]
            if event["type"] == "DELETED":
                stream.stop()

    actor = threading.Thread(target=act)
    actor.start()
    seen = list(events(start))
    actor.join()
    types = [kind for kind, _ in seen]
    expect(types == ["ADDED", "MODIFIED", "DELETED"], f"live watch saw {types}")
    versions = [int(o.metadata.resource_version) for _, o in seen]
    expect(versions == sorted(set(versions)), f"versions not increasing: {versions}")
    expect(seen[1][1].data == {"k": "2"}, "the modified event carries the new object")

    # From the first event's version, exactly the rest.
    resumed = [kind for kind, _ in events(seen[0][1].metadata.resource_version)]
    expect(resumed == ["MODIFIED", "DELETED"], f"resumed watch saw {resumed}")


@check
def list_selectors_and_pages(w):
    for i in range(7):
        labels = {"parity": "even" if i % 2 == 0 else "odd", "index": str(i)}
        w.core.create_namespaced_config_map(w.ns, config_map(f"c{i}", labels=labels))

    def names(**query):
        return [o.metadata.name for o in w.core.list_namespaced_config_map(w.ns, **query).items]

    expect(names(label_selector="parity=odd") == ["c1", "c3", "c5"], "equality selector")
    expect(names(label_selector="index in (1,2),parity!=odd") == ["c2"], "set selector")
    expect(names(label_selector="parity,!absent,index notin (0,1,2,3,4,5)") == ["c6"], "existence selector")
    expect(names(field_selector="metadata.name=c4") == ["c4"], "field selector")
    with refused(400, "BadRequest"):
        names(field_selector="spec.nothing=1")
    with refused(400, "BadRequest"):
        names(label_selector="a in (")

    pages, token, version = [], None, None
    while True:
        page = w.core.list_namespaced_config_map(w.ns, limit=3, _continue=token, label_selector="parity")
        version = version or page.metadata.resource_version
        expect(page.metadata.resource_version == version, "pages of one list have one version")
        pages.append([o.metadata.name for o in page.items])
        token = page.metadata._continue
        if not token:
            break
        if len(pages) == 1:
            # Written between two pages: a consistent list must not show it.
            w.core.create_namespaced_config_map(w.ns, config_map("c9", labels={"parity": "late"}))
    expect(pages == [["c0", "c1", "c2"], ["c3", "c4", "c5"], ["c6"]], f"pages {pages}")
    with refused(400, "BadRequest"):
        w.core.list_namespaced_config_map(w.ns, limit=3, _continue="forged")

    w.core.delete_collection_namespaced_config_map(w.ns, label_selector="parity")
    expect(names(label_selector="parity") == [], "deletecollection left something")


def definition(group):
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["colour"],
                "properties": {
                    "colour": {"type": "string", "enum": ["blue", "green"]},
                    "shade": {"type": "integer", "default": 5},
                },
                "x-kubernetes-validations": [{"rule": "self.shade < 10", "message": "shade too dark"}],
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"paints.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "paints", "singular": "paint", "kind": "Paint", "listKind": "PaintList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def established(crd):
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


@check
def dynamic_client_with_a_crd(w):
    group = f"{w.ns}.zaffre.io"  # unique per run, so discovery of an earlier run cannot help
    crds = client.ApiextensionsV1Api(w.api)
    name = f"paints.{group}"
    crds.create_custom_resource_definition(definition(group))
    try:
        stream = watch.Watch()
        for event in stream.stream(
            crds.list_custom_resource_definition, field_selector=f"metadata.name={name}", timeout_seconds=DEADLINE
        ):
            if established(event["raw_object"]):
                stream.stop()
        expect(established(w.api.sanitize_for_serialization(crds.read_custom_resource_definition(name))), "not Established")
        custom_resources(w, group)
    finally:
        crds.delete_custom_resource_definition(name)


def custom_resources(w, group):
    paints = w.dynamic().resources.get(api_version=f"{group}/v1", kind="Paint")

    def paint(name, **spec):
        return {"apiVersion": f"{group}/v1", "kind": "Paint", "metadata": {"name": name}, "spec": spec}

    made = paints.create(body=paint("sky", colour="blue", unknown=1), namespace=w.ns)
    expect(made.spec.to_dict() == {"colour": "blue", "shade": 5}, f"not defaulted and pruned: {made.spec}")
    with refused(422, "Invalid"):
        paints.create(body=paint("bad", colour="red"), namespace=w.ns)
    with refused(422, "Invalid"):
        paints.create(body=paint("dark", colour="blue", shade=11), namespace=w.ns)

    merge = "application/merge-patch+json"
    got = paints.patch(body={"spec": {"shade": 6}}, name="sky", namespace=w.ns, content_type=merge)
    expect(got.spec.shade == 6 and got.metadata.generation == 2, f"merge patch gave {got.spec}")
    got = paints.status.patch(body={"status": {"dry": True}}, name="sky", namespace=w.ns, content_type=merge)
    expect(got.status.dry is True and got.metadata.generation == 2, "status patch must not move the generation")

    body = paint("leaf", colour="green")
    first = paints.server_side_apply(body=body, name="leaf", namespace=w.ns, field_manager="painter")
    again = paints.server_side_apply(body=body, name="leaf", namespace=w.ns, field_manager="painter")
    expect(first.metadata.resourceVersion == again.metadata.resourceVersion, "applying the same twice wrote twice")
    entry = first.metadata.managedFields[0]
    expect((entry.manager, entry.operation) == ("painter", "Apply"), f"managedFields say {entry}")
    with refused(409, "Conflict"):
        paints.server_side_apply(
            body=paint("leaf", colour="blue"), name="leaf", namespace=w.ns, field_manager="other"
        )
    forced = paints.server_side_apply(
        body=paint("leaf", colour="blue"), name="leaf", namespace=w.ns, field_manager="other", force_conflicts=True
    )
    expect(forced.spec.colour == "blue", "forced apply")

    held = paints.patch(
        body={"metadata": {"finalizers": ["zaffre.io/hold"]}}, name="sky", namespace=w.ns, content_type=merge
    )
    paints.delete(name="sky", namespace=w.ns)
    held = paints.get(name="sky", namespace=w.ns)
    expect(held.metadata.deletionTimestamp, "a finalizer holds the object, marked for deletion")
    paints.patch(body={"metadata": {"finalizers": None}}, name="sky", namespace=w.ns, content_type=merge)
    with refused(404, "NotFound"):
        paints.get(name="sky", namespace=w.ns)
    paints.delete(name="leaf", namespace=w.ns)
    expect(paints.get(namespace=w.ns).items == [], "list after deletes")


@check
def access_reviews(w):
    auth = client.AuthorizationV1Api(w.api)

    def may(user, verb, resource):
        attributes = client.V1ResourceAttributes(namespace=w.ns, verb=verb, resource=resource)
        spec = client.V1SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
        return auth.create_subject_access_review(client.V1SubjectAccessReview(spec=spec)).status.allowed

    expect(may("python-reader", "get", "configmaps") is False, "a stranger may read")
    rbac = client.RbacAuthorizationV1Api(w.api)
    rule = client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["get"])
    rbac.create_namespaced_role(w.ns, client.V1Role(metadata=client.V1ObjectMeta(name="reader"), rules=[rule]))
    rbac.create_namespaced_role_binding(
        w.ns,
        client.V1RoleBinding(
            metadata=client.V1ObjectMeta(name="reader"),
            role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="reader"),
            subjects=[client.RbacV1Subject(kind="User", name="python-reader", api_group="rbac.authorization.k8s.io")],
        ),
    )
    # Authorizers may lag behind their objects, in a real cluster too; the binding is what must become visible.
    for _ in range(100):
        if may("python-reader", "get", "configmaps"):
            break
    expect(may("python-reader", "get", "configmaps"), "the bound role gives nothing")
    expect(not may("python-reader", "delete", "configmaps"), "the bound role gives too much")

    attributes = client.V1ResourceAttributes(verb="*", resource="*", group="*")
    self_spec = client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
    mine = auth.create_self_subject_access_review(client.V1SelfSubjectAccessReview(spec=self_spec))
    expect(mine.status.allowed, "the kubeconfig's user should be an administrator")


@check
def token_requests(w):
    w.core.create_namespaced_service_account(w.ns, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot")))
    spec = client.V1TokenRequestSpec(audiences=["vault"], expiration_seconds=600)
    issued = w.core.create_namespaced_service_account_token("robot", w.ns, client.AuthenticationV1TokenRequest(spec=spec))
    expect(issued.status.token.count(".") == 2 and issued.status.expiration_timestamp, "no token")

    reviews = client.AuthenticationV1Api(w.api)

    def review(token, audiences):
        spec = client.V1TokenReviewSpec(token=token, audiences=audiences)
        return reviews.create_token_review(client.V1TokenReview(spec=spec)).status

    status = review(issued.status.token, ["vault"])
    expect(status.authenticated, f"own token refused: {status.error}")
    expect(status.user.username == f"system:serviceaccount:{w.ns}:robot", f"it says {status.user.username}")
    expect(not review(issued.status.token, ["elsewhere"]).authenticated, "accepted for another audience")
    head, body, signature = issued.status.token.split(".")
    forged = ".".join([head, body, ("A" if signature[0] != "A" else "B") + signature[1:]])
    expect(not review(forged, ["vault"]).authenticated, "a forged signature was accepted")


@check
def leader_election(w):
    """Two candidates on one lock: one leads, and when it can no longer renew, the other takes over."""

    class Lock(ConfigMapLock):
        cut_off = False

        def update(self, *args, **kwargs):
            return False if self.cut_off else super().update(*args, **kwargs)

    led = queue.Queue()

    def candidate(name):
        lock = Lock("election", w.ns, name)
        lock.api_instance = w.core
        settings = electionconfig.Config(
            lock, lease_duration=9, renew_deadline=3, retry_period=1,
            onstarted_leading=lambda: led.put(name), onstopped_leading=lambda: led.put(f"{name} stopped"))
        threading.Thread(target=leaderelection.LeaderElection(settings).run, daemon=True).start()
        return lock

    first = candidate("a")
    expect(led.get(timeout=40) == "a", "nobody leads")
    record = w.core.read_namespaced_config_map("election", w.ns).metadata.annotations
    expect('"a"' in record["control-plane.alpha.kubernetes.io/leader"], f"the record names another: {record}")
    second = candidate("b")
    first.cut_off = True
    expect(led.get(timeout=40) == "a stopped", "two lead at once")
    expect(led.get(timeout=40) == "b", "nobody took over")
    second.cut_off = True
    expect(led.get(timeout=40) == "b stopped", "an end without a word")


def main(wanted):
    config.load_kube_config()
    failures = []
    for function in CHECKS:
        name = function.__name__
        if wanted and name not in wanted:
            continue
        world = None
        try:
            world = World()
            function(world)
            print("ok", name, flush=True)
        except Exception as e:  # noqa: BLE001 - one failing check must not hide the others
            failures.append(name)
            print("FAIL", name, f"{type(e).__name__}: {e}", flush=True)
            traceback.print_exc()
        finally:
            if world:
                world.close()
    unknown = set(wanted) - {function.__name__ for function in CHECKS}
    if unknown:
        sys.exit(f"no such checks: {sorted(unknown)}")
    if failures:
        sys.exit(f"{len(failures)} of {len(CHECKS)} checks failed: {', '.join(failures)}")


if __name__ == "__main__":
    main(sys.argv[1:])
