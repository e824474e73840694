//! What a resource can do, as a list of operations: the part that OpenAPI v2 and v3, built-in and custom
//! resources have in common. Names and ids follow kube-apiserver, because client generators build on them.

use super::ResourceDoc;
use ek_meta::Gvk;

/// What a request carries.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Body {
    None,
    /// A definition, by name; the flag says whether it is required.
    Model(String, bool),
    Patch,
}

/// What a response carries.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Model(String),
    /// Text or an upgraded connection.
    Text,
}

/// Query parameters, by what kind of request takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Params {
    None,
    List,
    Write,
    Patch,
    Delete,
    DeleteCollection,
    Log,
    Exec,
    Attach,
    PortForward,
    Proxy,
}

impl Params {
    /// The subresource is a connection, to which `pretty` means nothing.
    pub(super) fn connects(self) -> bool {
        matches!(self, Params::Exec | Params::Attach | Params::PortForward | Params::Proxy)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) path: String,
    pub(super) method: &'static str,
    /// `x-kubernetes-action`; none for the discovery document.
    pub(super) action: Option<&'static str>,
    pub(super) gvk: Option<Gvk>,
    pub(super) id: String,
    pub(super) description: String,
    pub(super) params: Params,
    pub(super) body: Body,
    pub(super) answer: Answer,
    pub(super) codes: &'static [&'static str],
    /// May answer with a stream of watch events.
    pub(super) streams: bool,
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const OK: &[&str] = &["200"];
const WRITTEN: &[&str] = &["200", "201"];
const CREATED: &[&str] = &["200", "201", "202"];
const DELETED: &[&str] = &["200", "202"];

pub(super) fn meta(kind: &str) -> String {
    format!("{META}.{kind}")
}

/// `apps` → `Apps`, `rbac.authorization.k8s.io` → `RbacAuthorization`, the core group → `Core`.
pub(super) fn group_name(group: &str) -> String {
    let short = group.strip_suffix(".k8s.io").unwrap_or(group);
    let short = if short.is_empty() { "core" } else { short };
    short.split(['.', '-']).map(capital).collect()
}

/// The tag operations are filed under: `rbacAuthorization_v1`.
pub(super) fn tag(group: &str, version: &str) -> String {
    let name = group_name(group);
    let mut chars = name.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    format!("{}{}_{version}", first.into_iter().collect::<String>(), chars.as_str())
}

fn capital(s: &str) -> String {
    let mut chars = s.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

pub(super) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// Everything a group-version offers, in no particular order.
pub(super) fn operations(group: &str, version: &str, resources: &[ResourceDoc]) -> Vec<Operation> {
    let root = root(group, version);
    let prefix = format!("{}{}", group_name(group), capital(version));
    let mut out = vec![Operation {
        path: format!("{root}/"),
        method: "get",
        action: None,
        gvk: None,
        id: format!("get{prefix}APIResources"),
        description: "get available resources".into(),
        params: Params::None,
        body: Body::None,
        answer: Answer::Model(meta("APIResourceList")),
        codes: OK,
        streams: false,
    }];
    for r in resources {
        Builder { root: &root, prefix: &prefix, r, out: &mut out }.all();
    }
    out
}

struct Builder<'a> {
    root: &'a str,
    prefix: &'a str,
    r: &'a ResourceDoc,
    out: &'a mut Vec<Operation>,
}

impl Builder<'_> {
    fn all(&mut self) {
        let (r, root) = (self.r, self.root);
        let place = if r.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{place}/{}", r.plural);
        let object = format!("{collection}/{{name}}");
        self.collection(&collection);
        self.object(&object);
        for s in &r.subresources {
            self.subresource(&object, s);
        }
        if r.watch_paths && r.can("watch") {
            self.watch(&format!("{root}/watch{place}/{}", r.plural));
        }
    }

    fn kind(&self) -> &str {
        &self.r.gvk.kind
    }

    /// `list` + `AppsV1` + `NamespacedDeployment`.
    fn id(&self, verb: &str, infix: &str, suffix: &str) -> String {
        let scope = if self.r.namespaced { "Namespaced" } else { "" };
        format!("{verb}{}{infix}{scope}{}{suffix}", self.prefix, self.kind())
    }

    fn push(&mut self, op: Operation) {
        self.out.push(op);
    }

    fn op(
        &self,
        path: &str,
        method: &'static str,
        action: &'static str,
        id: String,
        description: String,
    ) -> Operation {
        Operation {
            path: path.to_owned(),
            method,
            action: Some(action),
            gvk: Some(self.r.gvk.clone()),
            id,
            description,
            params: Params::None,
            body: Body::None,
            answer: Answer::Model(self.r.model.clone()),
            codes: OK,
            streams: false,
        }
    }

    fn collection(&mut self, path: &str) {
        let r = self.r;
        let kind = self.kind().to_owned();
        let list = |op: Operation| Operation {
            params: Params::List,
            answer: Answer::Model(r.list_model.clone()),
            streams: true,
            ..op
        };
        let words = format!("list or watch objects of kind {kind}");
        if r.can("list") {
            let op = self.op(path, "get", "list", self.id("list", "", ""), words.clone());
            self.push(list(op));
            if r.namespaced {
                let everywhere = format!("{}/{}", self.root, r.plural);
                let id = format!("list{}{kind}ForAllNamespaces", self.prefix);
                let op = self.op(&everywhere, "get", "list", id, words);
                self.push(list(op));
            }
        }
        if r.can("create") {
            let op = self.op(
                path,
                "post",
                "post",
                self.id("create", "", ""),
                format!("create {} {kind}", article(&kind)),
            );
            self.push(Operation {
                params: Params::Write,
                body: Body::Model(r.model.clone(), true),
                codes: CREATED,
                ..op
            });
        }
        if r.can("deletecollection") {
            let id = self.id("delete", "Collection", "");
            let op = self.op(path, "delete", "deletecollection", id, format!("delete collection of {kind}"));
            self.push(Operation {
                params: Params::DeleteCollection,
                body: Body::Model(meta("DeleteOptions"), false),
                answer: Answer::Model(meta("Status")),
                ..op
            });
        }
    }

    fn object(&mut self, path: &str) {
        let r = self.r;
        let kind = self.kind().to_owned();
        if r.can("get") {
            let op =
                self.op(path, "get", "get", self.id("read", "", ""), format!("read the specified {kind}"));
            self.push(op);
        }
        if r.can("update") {
            let op = self.op(
                path,
                "put",
                "put",
                self.id("replace", "", ""),
                format!("replace the specified {kind}"),
            );
            self.push(self.put(op, &r.model));
        }
        if r.can("patch") {
            let words = format!("partially update the specified {kind}");
            let op = self.op(path, "patch", "patch", self.id("patch", "", ""), words);
            self.push(Operation { params: Params::Patch, body: Body::Patch, codes: WRITTEN, ..op });
        }
        if r.can("delete") {
            let words = format!("delete {} {kind}", article(&kind));
            let op = self.op(path, "delete", "delete", self.id("delete", "", ""), words);
            // These document the object they deleted; all others a Status.
            let object = matches!(
                kind.as_str(),
                "Pod"
                    | "PodTemplate"
                    | "Service"
                    | "ServiceAccount"
                    | "ResourceQuota"
                    | "PersistentVolume"
                    | "PersistentVolumeClaim"
                    | "VolumeAttachment"
                    | "StorageClass"
                    | "CSIDriver"
                    | "CSINode"
                    | "DeviceClass"
                    | "ResourceClaim"
                    | "ResourceClaimTemplate"
                    | "ResourceSlice"
                    | "VolumeAttributesClass"
            );
            let answer = if object && r.watch_paths { r.model.clone() } else { meta("Status") };
            self.push(Operation {
                params: Params::Delete,
                body: Body::Model(meta("DeleteOptions"), false),
                answer: Answer::Model(answer),
                codes: DELETED,
                ..op
            });
        }
    }

    fn put(&self, op: Operation, model: &str) -> Operation {
        Operation { params: Params::Write, body: Body::Model(model.to_owned(), true), codes: WRITTEN, ..op }
    }

    fn subresource(&mut self, object: &str, s: &super::SubresourceDoc) {
        let path = format!("{object}/{}", s.name);
        let kind = self.kind().to_owned();
        let suffix = capital(&s.name);
        if s.connect {
            self.connect(&path, &suffix, s);
            return;
        }
        let answer = if s.name == "log" { Answer::Text } else { Answer::Model(s.model.clone()) };
        for verb in &s.verbs {
            let of = format!("{} of the specified {kind}", s.name);
            let op = match verb.as_str() {
                "get" => self.op(&path, "get", "get", self.id("read", "", &suffix), format!("read {of}")),
                "update" => {
                    let op = self.op(
                        &path,
                        "put",
                        "put",
                        self.id("replace", "", &suffix),
                        format!("replace {of}"),
                    );
                    self.put(op, &s.model)
                }
                "patch" => {
                    let id = self.id("patch", "", &suffix);
                    let op = self.op(&path, "patch", "patch", id, format!("partially update {of}"));
                    Operation { params: Params::Patch, body: Body::Patch, codes: WRITTEN, ..op }
                }
                "create" => {
                    let words = format!("create {} of {} {kind}", s.name, article(&kind));
                    let op = self.op(&path, "post", "post", self.id("create", "", &suffix), words);
                    let body = Body::Model(s.model.clone(), true);
                    Operation { params: Params::Write, body, codes: CREATED, ..op }
                }
                _ => continue,
            };
            let params = if s.name == "log" { Params::Log } else { op.params };
            self.push(Operation { gvk: Some(s.gvk.clone()), answer: answer.clone(), params, ..op });
        }
    }

    fn connect(&mut self, path: &str, suffix: &str, s: &super::SubresourceDoc) {
        let proxy: &[&'static str] = &["get", "post", "put", "delete", "patch", "head", "options"];
        let methods = if s.name == "proxy" { proxy } else { &["get", "post"] };
        let forms: &[(&str, &str)] =
            if s.name == "proxy" { &[("", ""), ("/{path}", "WithPath")] } else { &[("", "")] };
        let params = match s.name.as_str() {
            "exec" => Params::Exec,
            "attach" => Params::Attach,
            "portforward" => Params::PortForward,
            _ => Params::Proxy,
        };
        for (tail, with) in forms {
            for method in methods {
                let id = self.id("connect", &capital(method), &format!("{suffix}{with}"));
                let words =
                    format!("connect {} requests to {} of {}", method.to_uppercase(), s.name, self.kind());
                let op = self.op(&format!("{path}{tail}"), method, "connect", id, words);
                self.push(Operation { gvk: Some(s.gvk.clone()), answer: Answer::Text, params, ..op });
            }
        }
    }

    /// The old way to watch; still published for built-in kinds.
    fn watch(&mut self, collection: &str) {
        let kind = self.kind().to_owned();
        let words = |what: &str| {
            format!("watch {what} of kind {kind}; deprecated: use `watch` with a list operation")
        };
        let mut paths = vec![
            (
                collection.to_owned(),
                "watchlist",
                self.id("watch", "", "List"),
                words("individual changes to a list"),
            ),
            (
                format!("{collection}/{{name}}"),
                "watch",
                self.id("watch", "", ""),
                words("changes to an object"),
            ),
        ];
        if self.r.namespaced {
            let id = format!("watch{}{kind}ListForAllNamespaces", self.prefix);
            let path = format!("{}/watch/{}", self.root, self.r.plural);
            paths.push((path, "watchlist", id, words("individual changes to a list")));
        }
        for (path, action, id, description) in paths {
            let op = self.op(&path, "get", action, id, description);
            let answer = Answer::Model(meta("WatchEvent"));
            self.push(Operation { params: Params::List, answer, streams: true, ..op });
        }
    }
}

fn article(kind: &str) -> &'static str {
    if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}
