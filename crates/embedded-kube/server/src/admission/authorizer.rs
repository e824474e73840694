//! `authorizer` in CEL: `authorizer.group('apps').resource('deployments').namespace('x').check('get').allowed()`.

use crate::cluster::Cluster;
use crate::verbs::Call;
use ek_auth::User;
use ek_auth::rbac::Attributes;
use ek_schema::cel::{Budget, EvalError, Host, Val};
use std::rc::Rc;
use std::sync::Arc;

type Res<T> = Result<T, EvalError>;

#[derive(Clone)]
pub struct AuthorizerHost {
    cluster: Arc<Cluster>,
    user: User,
    path: Option<String>,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    /// How far the chain has come.
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Root,
    Path,
    Group,
    Resource,
}

impl AuthorizerHost {
    pub fn new(call: &Call) -> AuthorizerHost {
        AuthorizerHost {
            cluster: call.cluster.clone(),
            user: call.user.clone(),
            path: None,
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            stage: Stage::Root,
        }
    }
}

struct DecisionHost {
    allowed: bool,
    reason: String,
}

impl<'a> Host<'a> for DecisionHost {
    fn type_name(&self) -> &str {
        "kubernetes.authorization.Decision"
    }

    fn field(&self, _: &str, _: &Budget) -> Option<Res<Val<'a>>> {
        None
    }

    fn call(&self, name: &str, _: &[Val<'a>], _: &Budget) -> Option<Res<Val<'a>>> {
        match name {
            "allowed" => Some(Ok(Val::Bool(self.allowed))),
            "errored" => Some(Ok(Val::Bool(false))),
            "reason" => Some(Ok(Val::str(self.reason.as_str()))),
            "error" => Some(Ok(Val::str(""))),
            _ => None,
        }
    }
}

impl<'a> Host<'a> for AuthorizerHost {
    fn type_name(&self) -> &str {
        match self.stage {
            Stage::Root => "kubernetes.authorization.Authorizer",
            Stage::Path => "kubernetes.authorization.PathCheck",
            Stage::Group => "kubernetes.authorization.GroupCheck",
            Stage::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }

    fn field(&self, name: &str, _: &Budget) -> Option<Res<Val<'a>>> {
        let _ = name;
        None
    }

    fn call(&self, method: &str, args: &[Val<'a>], _: &Budget) -> Option<Res<Val<'a>>> {
        let text: Vec<&str> = args
            .iter()
            .filter_map(|a| match a {
                Val::Str(s) => Some(s.as_str()),
                _ => None,
            })
            .collect();
        let mut next = self.clone();
        match (self.stage, method, text.as_slice()) {
            (Stage::Root, "path", [p]) => {
                next.path = Some((*p).to_owned());
                next.stage = Stage::Path;
            }
            (Stage::Root, "group", [g]) => {
                next.group = (*g).to_owned();
                next.stage = Stage::Group;
            }
            (Stage::Root, "serviceAccount", [ns, name]) => next.user = User::service_account(ns, name),
            (Stage::Group, "resource", [r]) => {
                next.resource = (*r).to_owned();
                next.stage = Stage::Resource;
            }
            (Stage::Resource, "subresource", [s]) => next.subresource = (*s).to_owned(),
            (Stage::Resource, "namespace", [n]) => next.namespace = (*n).to_owned(),
            (Stage::Resource, "name", [n]) => next.name = (*n).to_owned(),
            (Stage::Resource | Stage::Path, "check", [verb]) => {
                let d = self.cluster.authorizer(&self.namespace).authorize(
                    &self.user,
                    &Attributes {
                        verb,
                        namespace: &self.namespace,
                        group: &self.group,
                        resource: &self.resource,
                        subresource: &self.subresource,
                        name: &self.name,
                        path: self.path.as_deref(),
                    },
                );
                let host = DecisionHost { allowed: d.allowed, reason: d.reason };
                return Some(Ok(Val::Host(Rc::new(host))));
            }
            _ => return None,
        }
        Some(Ok(Val::Host(Rc::new(next))))
    }
}
