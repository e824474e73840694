//! What would go wrong, said before it does, each finding with the command that mends it.

mod account;
mod capacity;
mod names;

use arm::ResourceId;
use azure::Client;
use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Good,
    /// Worth a look; nothing stops.
    Warning,
    Blocker,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    pub check: &'static str,
    pub found: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// For which commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Infra,
    Iam,
    Cluster,
    Managed,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Examination {
    pub subscription: ResourceId,
    pub purpose: For,
    pub location: String,
    pub base_domain: Option<String>,
    /// Groups that the commands are to use, if they exist already.
    pub groups: Vec<String>,
    pub dns_group: Option<String>,
    pub cluster: Option<crate::Cluster>,
    /// Of the storage account of a token issuer, and of a key vault: are these names to be had?
    pub account: Option<String>,
    pub vault: Option<String>,
    /// Nodes that are to run; asked of [`For::Cluster`] and [`For::Managed`].
    pub nodes: Nodes,
}

/// Machines of a cluster.
#[derive(Clone, Debug)]
pub struct Nodes {
    pub size: String,
    pub count: u64,
    /// Where; empty for anywhere.
    pub zones: Vec<String>,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes { size: "Standard_D4s_v5".to_owned(), count: 2, zones: Vec::new() }
    }
}

struct Report(Vec<Finding>);

impl Report {
    fn add(&mut self, level: Level, check: &'static str, found: impl Into<String>, fix: Option<String>) {
        self.0.push(Finding { level, check, found: found.into(), fix });
    }

    fn good(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(Level::Good, check, found, None);
    }

    fn blocker(&mut self, check: &'static str, found: impl Into<String>, fix: impl Into<String>) {
        self.add(Level::Blocker, check, found, Some(fix.into()));
    }

    fn warning(&mut self, check: &'static str, found: impl Into<String>, fix: impl Into<String>) {
        self.add(Level::Warning, check, found, Some(fix.into()));
    }

    /// A question that could not be asked is not an answer.
    fn unknown(&mut self, check: &'static str, e: &dyn std::fmt::Display) {
        let fix = "run zaffre doctor azure again; with -v it says what was asked".to_owned();
        self.add(Level::Warning, check, format!("cannot tell: {e}"), Some(fix));
    }
}

/// Looks at everything; what cannot be looked at is said to be unknown.
pub async fn examine(client: &Client, x: &Examination) -> Vec<Finding> {
    let mut r = Report(Vec::new());
    let me = account::who(client, &mut r).await;
    if r.0.iter().any(|f| f.level == Level::Blocker) {
        return r.0;
    }
    account::permissions(client, x, me.as_deref(), &mut r).await;
    if x.purpose == For::Managed {
        account::directory(client, &mut r).await;
    }
    account::registration(client, x, &mut r).await;
    account::region(client, x, &mut r).await;
    capacity::examine(client, x, &mut r).await;
    if x.purpose != For::Iam {
        names::dns(client, x, &mut r).await;
    }
    names::credentials(client, x, &mut r).await;
    names::names(client, x, &mut r).await;
    names::global(client, x, &mut r).await;
    r.0
}
