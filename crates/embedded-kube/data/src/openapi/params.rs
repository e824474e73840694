//! Query and path parameters, in our own words.

use super::operations::Params;
use serde_json::{Value, json};

type Param = (&'static str, &'static str, &'static str);

const DRY_RUN: Param = ("dryRun", "string", "`All` runs every stage of the request but stores nothing.");
const FIELD_MANAGER: Param = ("fieldManager", "string", "The name under which the changed fields are owned.");
const FIELD_VALIDATION: Param = (
    "fieldValidation",
    "string",
    "What to do about unknown or duplicate fields: `Ignore`, `Warn` or `Strict`.",
);
const FORCE: Param = ("force", "boolean", "Take over fields that others own. Only for apply requests.");
const CONTINUE: Param = ("continue", "string", "Where to go on, as returned by the list before.");
const FIELD_SELECTOR: Param = ("fieldSelector", "string", "Restricts the list by fields.");
const LABEL_SELECTOR: Param = ("labelSelector", "string", "Restricts the list by labels.");
const LIMIT: Param = ("limit", "integer", "The most objects to return at once.");
const VERSION: Param = ("resourceVersion", "string", "Which versions of the data may be served.");
const VERSION_MATCH: Param = ("resourceVersionMatch", "string", "How `resourceVersion` applies to a list.");
const INITIAL: Param =
    ("sendInitialEvents", "boolean", "Begin a watch with the current state and a bookmark.");
const TIMEOUT: Param = ("timeoutSeconds", "integer", "How long the call may last.");
const BOOKMARKS: Param = ("allowWatchBookmarks", "boolean", "Send bookmark events while watching.");
const WATCH: Param = ("watch", "boolean", "Follow changes instead of listing.");
const GRACE: Param = ("gracePeriodSeconds", "integer", "Seconds before the object is deleted.");
const UNSAFE: Param = (
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Delete even an object that cannot be read from storage.",
);
const ORPHAN: Param = ("orphanDependents", "boolean", "Deprecated: use `propagationPolicy`.");
const PROPAGATION: Param =
    ("propagationPolicy", "string", "What happens to dependents: `Orphan`, `Background` or `Foreground`.");

const CONTAINER: Param = ("container", "string", "Which container, if there are several.");
const STDERR: Param = ("stderr", "boolean", "Send standard error.");
const STDIN: Param = ("stdin", "boolean", "Take standard input.");
const STDOUT: Param = ("stdout", "boolean", "Send standard output.");
const TTY: Param = ("tty", "boolean", "Allocate a terminal.");

fn query(params: Params) -> &'static [Param] {
    match params {
        Params::None => &[],
        Params::Exec => &[
            ("command", "string", "What to run; repeat for arguments. Not run in a shell."),
            CONTAINER,
            STDERR,
            STDIN,
            STDOUT,
            TTY,
        ],
        Params::Attach => &[CONTAINER, STDERR, STDIN, STDOUT, TTY],
        Params::PortForward => &[("ports", "integer", "The ports to forward.")],
        Params::Proxy => &[("path", "string", "The part of the URL to ask for.")],
        Params::List => &[
            BOOKMARKS,
            CONTINUE,
            FIELD_SELECTOR,
            LABEL_SELECTOR,
            LIMIT,
            VERSION,
            VERSION_MATCH,
            INITIAL,
            TIMEOUT,
            WATCH,
        ],
        Params::Write => &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION],
        Params::Patch => &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE],
        Params::Delete => &[DRY_RUN, GRACE, UNSAFE, ORPHAN, PROPAGATION],
        Params::DeleteCollection => &[
            CONTINUE,
            DRY_RUN,
            FIELD_SELECTOR,
            GRACE,
            UNSAFE,
            LABEL_SELECTOR,
            LIMIT,
            ORPHAN,
            PROPAGATION,
            VERSION,
            VERSION_MATCH,
            INITIAL,
            TIMEOUT,
        ],
        Params::Log => &[
            CONTAINER,
            ("follow", "boolean", "Keep sending as the log grows."),
            ("insecureSkipTLSVerifyBackend", "boolean", "Do not verify the kubelet's certificate."),
            ("limitBytes", "integer", "The most bytes to return."),
            ("previous", "boolean", "The log of the previous run of the container."),
            ("sinceSeconds", "integer", "Only what is younger than so many seconds."),
            ("stream", "string", "Which stream: `All`, `Stdout` or `Stderr`."),
            ("tailLines", "integer", "Only so many lines from the end."),
            ("timestamps", "boolean", "Begin each line with its time."),
        ],
    }
}

/// Renders a parameter: v3 wraps the type in a schema, v2 does not.
fn render(name: &str, place: &str, ty: &str, description: &str, v3: bool) -> Value {
    let mut p = json!({"description": description, "in": place, "name": name});
    if place == "path" {
        p["required"] = true.into();
    }
    if v3 {
        p["schema"] = json!({"type": ty, "uniqueItems": true});
    } else {
        p["type"] = ty.into();
        p["uniqueItems"] = true.into();
    }
    p
}

pub(super) fn of_operation(params: Params, v3: bool) -> Vec<Value> {
    query(params).iter().map(|(name, ty, text)| render(name, "query", ty, text, v3)).collect()
}

/// Parameters all operations of a path share.
pub(super) fn of_path(path: &str, kind: &str, pretty: bool, v3: bool) -> Vec<Value> {
    let mut out = Vec::new();
    if path.contains("{name}") {
        out.push(render("name", "path", "string", &format!("name of the {kind}"), v3));
    }
    if path.contains("{namespace}") {
        out.push(render("namespace", "path", "string", "the namespace of the object", v3));
    }
    if path.contains("{path}") {
        out.push(render("path", "path", "string", "path to the resource behind the proxy", v3));
    }
    if pretty {
        out.push(render("pretty", "query", "string", "`true` indents the output.", v3));
    }
    out
}
