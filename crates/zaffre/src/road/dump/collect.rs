//! Reading and writing, kind by kind and log by log. Nothing here ends because one thing fails.

use super::super::again::Tries;
use super::AT_ONCE;
use super::redact::{is_credential, redact};
use anyhow::Context;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Objects of one page.
const PAGE: u32 = 250;
/// Of one kind in one place; more is a fault of its own, and noted.
const MOST: usize = 50_000;
const MIB: i64 = 1 << 20;
/// Guests' own namespaces: those of customers have logs of their own business.
const SYSTEM: [&str; 2] = ["openshift", "kube-"];

/// What a cluster serves and can be listed.
pub struct Kinds {
    all: Vec<(ApiResource, Scope)>,
    /// Groups that are announced and do not answer.
    pub silent: Vec<String>,
}

impl Kinds {
    pub async fn of(client: &Client) -> anyhow::Result<Kinds> {
        // Group by group: one aggregated API that is down must not hide all others.
        let groups = Tries::of_many().ask(async || client.list_api_groups().await).await;
        let groups = groups.context("cannot ask for the API groups")?;
        let mut names: Vec<String> = groups.groups.into_iter().map(|g| g.name).collect();
        names.push(String::new());
        let (mut all, mut silent) = (Vec::new(), Vec::new());
        for name in names {
            match Discovery::new(client.clone()).filter(&[&name]).run().await {
                Ok(found) => {
                    let kinds = found.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
                    let listed =
                        kinds.filter(|(r, c)| c.supports_operation(verbs::LIST) && !is_credential(&r.plural));
                    all.extend(listed.map(|(r, c)| (r, c.scope)));
                }
                Err(_) => silent.push(format!("API group {name}")),
            }
        }
        all.sort_by(|a, b| (&a.0.group, &a.0.plural).cmp(&(&b.0.group, &b.0.plural)));
        all.dedup_by(|a, b| a.0.group == b.0.group && a.0.plural == b.0.plural);
        Ok(Kinds { all, silent })
    }

    fn scoped(&self, wide: bool) -> impl Iterator<Item = &ApiResource> {
        let fits = move |scope: &Scope| matches!(scope, Scope::Cluster) == wide;
        self.all.iter().filter(move |(_, scope)| fits(scope)).map(|(r, _)| r)
    }
}

fn group(resource: &ApiResource) -> &str {
    if resource.group.is_empty() { "core" } else { &resource.group }
}

pub struct Collector {
    dir: PathBuf,
    log_limit: i64,
    files: usize,
    failures: Vec<(String, String)>,
}

impl Collector {
    pub fn new(dir: PathBuf, log_limit_mib: u16) -> Collector {
        Collector { dir, log_limit: i64::from(log_limit_mib) * MIB, files: 0, failures: Vec::new() }
    }

    pub fn failed(&mut self, what: &str, why: &str) {
        self.failures.push((what.to_owned(), why.replace('\n', " ")));
    }

    pub fn end(self) -> (usize, Vec<(String, String)>) {
        (self.files, self.failures)
    }

    fn note(&mut self, results: Vec<(String, anyhow::Result<bool>)>) {
        for (what, result) in results {
            match result {
                Ok(wrote) => self.files += usize::from(wrote),
                Err(e) => self.failed(&what, &format!("{e:#}")),
            }
        }
    }

    /// Kinds without a namespace; `only` these, if there is a list.
    pub async fn cluster_wide(
        &mut self,
        client: &Client,
        below: &Path,
        kinds: &Kinds,
        only: Option<&[&str]>,
    ) {
        let dir = self.dir.join(below).join("cluster-scoped-resources");
        let wanted = kinds.scoped(true).filter(|r| only.is_none_or(|o| o.contains(&r.plural.as_str())));
        let jobs = wanted.map(|r| {
            let path = dir.join(group(r)).join(format!("{}.yaml", r.plural));
            (r.plural.clone(), Api::all_with(client.clone(), r), path)
        });
        let done = lists(jobs.collect()).await;
        self.note(done);
    }

    /// Everything in a namespace.
    pub async fn namespace(&mut self, client: &Client, namespace: &str, kinds: &Kinds) {
        let dir = self.dir.join("namespaces").join(namespace);
        let jobs = kinds.scoped(false).map(|r| {
            let path = dir.join(group(r)).join(format!("{}.yaml", r.plural));
            (format!("{} in {namespace}", r.plural), Api::namespaced_with(client.clone(), namespace, r), path)
        });
        let done = lists(jobs.collect()).await;
        self.note(done);
        self.logs(client, Some(namespace), &self.dir.join("namespaces")).await;
    }

    /// Everything in all namespaces, one file per kind.
    pub async fn everywhere(&mut self, client: &Client, below: &Path, kinds: &Kinds) {
        let dir = self.dir.join(below);
        let jobs = kinds.scoped(false).map(|r| {
            let path = dir.join("all-namespaces").join(group(r)).join(format!("{}.yaml", r.plural));
            (format!("{} of the guest", r.plural), Api::all_with(client.clone(), r), path)
        });
        let done = lists(jobs.collect()).await;
        self.note(done);
        self.logs(client, None, &dir.join("namespaces")).await;
    }

    /// Logs of every container that has begun, now and before.
    async fn logs(&mut self, client: &Client, namespace: Option<&str>, dir: &Path) {
        let pods: Api<Pod> = match namespace {
            Some(n) => Api::namespaced(client.clone(), n),
            None => Api::all(client.clone()),
        };
        let place = namespace.unwrap_or("the guest");
        let params = ListParams::default().limit(5000);
        let listed = match Tries::of_many().ask(async || pods.list(&params).await).await {
            Ok(listed) => listed.items,
            Err(e) => return self.failed(&format!("pods of {place}, for their logs"), &e.to_string()),
        };
        let mut jobs = Vec::new();
        for pod in listed {
            let home = pod.metadata.namespace.unwrap_or_default();
            let name = pod.metadata.name.unwrap_or_default();
            if namespace.is_none() && !SYSTEM.iter().any(|s| home.starts_with(s)) {
                continue;
            }
            let status = pod.status.unwrap_or_default();
            let all = [status.init_container_statuses, status.container_statuses];
            for c in all.into_iter().flatten().flatten() {
                let began = c.state.as_ref().is_some_and(|s| s.running.is_some() || s.terminated.is_some());
                let times = [(false, began), (true, c.restart_count > 0)];
                for (previous, _) in times.into_iter().filter(|(_, there)| *there) {
                    let suffix = if previous { "-previous" } else { "" };
                    let path =
                        dir.join(&home).join("core/pods/logs").join(format!("{name}-{}{suffix}.log", c.name));
                    jobs.push((home.clone(), name.clone(), c.name.clone(), previous, path));
                }
            }
        }
        let limit = self.log_limit;
        let done = stream::iter(jobs).map(|(home, name, container, previous, path)| {
            let api: Api<Pod> = Api::namespaced(client.clone(), &home);
            async move {
                let what =
                    format!("log of {home}/{name} {container}{}", if previous { " (previous)" } else { "" });
                (what, log(&api, &name, &container, previous, limit, &path).await)
            }
        });
        let done = done.buffer_unordered(AT_ONCE).collect().await;
        self.note(done);
    }
}

async fn log(
    api: &Api<Pod>,
    pod: &str,
    container: &str,
    previous: bool,
    limit: i64,
    path: &Path,
) -> anyhow::Result<bool> {
    let params = LogParams {
        container: Some(container.to_owned()),
        previous,
        limit_bytes: Some(limit),
        timestamps: true,
        ..LogParams::default()
    };
    let text = Tries::of_many().ask(async || api.logs(pod, &params).await).await?;
    let mut file = made(path)?;
    file.write_all(text.as_bytes())?;
    Ok(true)
}

fn made(path: &Path) -> anyhow::Result<std::io::BufWriter<std::fs::File>> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(std::io::BufWriter::new(file))
}

type Job = (String, Api<DynamicObject>, PathBuf);

async fn lists(jobs: Vec<Job>) -> Vec<(String, anyhow::Result<bool>)> {
    let done = stream::iter(jobs).map(|(what, api, path)| async move {
        let result = list(&api, &path).await;
        (what, result)
    });
    done.buffer_unordered(AT_ONCE).collect().await
}

/// A kind into a file, page by page; whether there was anything.
async fn list(api: &Api<DynamicObject>, path: &Path) -> anyhow::Result<bool> {
    let mut params = ListParams::default().limit(PAGE);
    let mut file = None;
    let mut count = 0;
    loop {
        let page = match Tries::of_many().ask(async || api.list(&params).await).await {
            Ok(page) => page,
            // Served by the definition, and gone by now or not listable after all.
            Err(kube::Error::Api(s)) if count == 0 && matches!(s.code, 404 | 405) => return Ok(false),
            Err(e) => return Err(e.into()),
        };
        let types = page.types.clone();
        for mut item in page.items {
            // Items of lists do not say what they are.
            if item.types.is_none() {
                item.types = Some(kube::core::TypeMeta {
                    kind: types.kind.trim_end_matches("List").to_owned(),
                    api_version: types.api_version.clone(),
                });
            }
            let mut object = serde_json::to_value(&item)?;
            redact(&mut object);
            let file = match &mut file {
                Some(file) => file,
                None => {
                    let mut begun = made(path)?;
                    begun.write_all(b"apiVersion: v1\nkind: List\nitems:\n")?;
                    file.insert(begun)
                }
            };
            let text = serde_saphyr::to_string(&object)?;
            for (n, line) in text.trim_end().lines().enumerate() {
                writeln!(file, "{}{line}", if n == 0 { "- " } else { "  " })?;
            }
            count += 1;
        }
        match page.metadata.continue_.filter(|c| !c.is_empty()) {
            Some(_) if count >= MOST => anyhow::bail!("there are more than {MOST}; the rest is left out"),
            Some(next) => params = params.continue_token(&next),
            None => break,
        }
    }
    if let Some(mut file) = file {
        file.flush()?;
        return Ok(true);
    }
    Ok(false)
}
