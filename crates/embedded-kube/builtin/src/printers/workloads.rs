//! Controllers of pods.

use super::cells::{self, NONE, count};
use super::{AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR, Table, col, int, text};
use crate::json::{list, str_of};
use ek_meta::object::{at, str_at};
use ek_meta::time;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Cells of the three wide columns.
fn wide_cells(obj: &Value, template: &[&str]) -> [Value; 3] {
    let (names, images) = cells::containers(at(obj, template));
    [names, images, json!(cells::selector(at(obj, &["spec", "selector"])))]
}

const TEMPLATE: &[&str] = &["spec", "template", "spec"];

pub(super) const POD_TEMPLATES: Table = (
    &[
        NAME,
        text("Containers", "Names of each container in the template."),
        text("Images", "Images referenced by each container in the template."),
        text("Pod Labels", "The labels for the pod template."),
    ],
    |obj, _| {
        let (names, images) = cells::containers(at(obj, &["template", "spec"]));
        let labels = cells::labels(at(obj, &["template", "metadata", "labels"]));
        vec![cells::name(obj), names, images, json!(labels)]
    },
);

/// What scale subresources show.
pub(super) const SCALES: Table = (
    &[
        // Without the format names have everywhere else.
        text("Name", NAME.description),
        int("Desired", "Number of replicas asked for."),
        int("Available", "Number of replicas there are."),
        AGE,
    ],
    |obj, now| {
        vec![
            cells::name(obj),
            json!(count(obj, &["spec", "replicas"])),
            json!(count(obj, &["status", "replicas"])),
            cells::age(obj, now),
        ]
    },
);

const REPLICAS: &[Column] = &[
    NAME,
    int("Desired", "Number of pods asked for."),
    int("Current", "Number of pods there are."),
    int("Ready", "Number of pods that are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn replicas(obj: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![
        cells::name(obj),
        json!(count(obj, &["spec", "replicas"])),
        json!(count(obj, &["status", "replicas"])),
        json!(count(obj, &["status", "readyReplicas"])),
        cells::age(obj, now),
    ];
    cells.extend(wide_cells(obj, TEMPLATE));
    cells
}

pub(super) const REPLICA_SETS: Table = (REPLICAS, replicas);
pub(super) const REPLICATION_CONTROLLERS: Table = (REPLICAS, |obj, now| {
    let mut cells = replicas(obj, now);
    // A selector of the old kind is a plain map.
    if let Some(last) = cells.last_mut() {
        *last = json!(cells::labels(at(obj, &["spec", "selector"])));
    }
    cells
});

pub(super) const DEPLOYMENTS: Table = (
    &[
        NAME,
        text("Ready", "Number of the pod with ready state"),
        text("Up-to-date", "Number of pods of the current template."),
        text("Available", "Number of pods ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |obj, now| {
        let ready = count(obj, &["status", "readyReplicas"]);
        let mut cells = vec![
            cells::name(obj),
            json!(format!("{ready}/{}", count(obj, &["spec", "replicas"]))),
            json!(count(obj, &["status", "updatedReplicas"])),
            json!(count(obj, &["status", "availableReplicas"])),
            cells::age(obj, now),
        ];
        cells.extend(wide_cells(obj, TEMPLATE));
        cells
    },
);

pub(super) const STATEFUL_SETS: Table =
    (&[NAME, text("Ready", "Number of the pod with ready state"), AGE, CONTAINERS, IMAGES], |obj, now| {
        let ready = count(obj, &["status", "readyReplicas"]);
        let (names, images) = cells::containers(at(obj, TEMPLATE));
        vec![
            cells::name(obj),
            json!(format!("{ready}/{}", count(obj, &["spec", "replicas"]))),
            cells::age(obj, now),
            names,
            images,
        ]
    });

pub(super) const DAEMON_SETS: Table = (
    &[
        NAME,
        int("Desired", "Number of nodes that should run the pod."),
        int("Current", "Number of nodes that run the pod."),
        int("Ready", "Number of nodes whose pod is ready."),
        int("Up-to-date", "Number of nodes whose pod is of the current template."),
        int("Available", "Number of nodes whose pod is ready for long enough."),
        text("Node Selector", "Labels of the nodes the pod may run on."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |obj, now| {
        let n = |key: &str| json!(count(obj, &["status", key]));
        let mut cells = vec![
            cells::name(obj),
            n("desiredNumberScheduled"),
            n("currentNumberScheduled"),
            n("numberReady"),
            n("updatedNumberScheduled"),
            n("numberAvailable"),
            json!(cells::labels(at(obj, &["spec", "template", "spec", "nodeSelector"]))),
            cells::age(obj, now),
        ];
        cells.extend(wide_cells(obj, TEMPLATE));
        cells
    },
);

pub(super) const CONTROLLER_REVISIONS: Table = (
    &[NAME, text("Controller", "Controller of the object"), text("Revision", "Place in the history."), AGE],
    |obj, now| {
        let owners = at(obj, &["metadata"]).map_or(&[][..], |m| list(m, "ownerReferences"));
        let controller = owners.iter().find(|o| o.get("controller") == Some(&Value::Bool(true)));
        let controller = controller.map_or_else(
            || NONE.to_owned(),
            |o| {
                let kind = str_of(o, "kind").to_ascii_lowercase();
                match str_of(o, "apiVersion").rsplit_once('/') {
                    Some((group, _)) => format!("{kind}.{group}/{}", str_of(o, "name")),
                    None => format!("{kind}/{}", str_of(o, "name")),
                }
            },
        );
        vec![cells::name(obj), json!(controller), json!(count(obj, &["revision"])), cells::age(obj, now)]
    },
);

pub(super) const JOBS: Table = (
    &[
        NAME,
        text("Status", "Status of the job."),
        text("Completions", "Pods that succeeded, of those needed."),
        text("Duration", "Time required to complete the job."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |obj, now| {
        let done = count(obj, &["status", "succeeded"]);
        let parallelism = count(obj, &["spec", "parallelism"]);
        let completions = match at(obj, &["spec", "completions"]).and_then(Value::as_i64) {
            Some(n) => format!("{done}/{n}"),
            None if parallelism > 1 => format!("{done}/1 of {parallelism}"),
            None => format!("{done}/1"),
        };
        let start = str_at(obj, &["status", "startTime"]).and_then(time::parse);
        let end = str_at(obj, &["status", "completionTime"]).and_then(time::parse);
        let duration = start.map_or_else(String::new, |start| {
            time::human_duration(end.unwrap_or(now).as_second().saturating_sub(start.as_second()))
        });
        let mut cells = vec![
            cells::name(obj),
            json!(job_status(obj)),
            json!(completions),
            json!(duration),
            cells::age(obj, now),
        ];
        cells.extend(wide_cells(obj, TEMPLATE));
        cells
    },
);

fn job_status(obj: &Value) -> &'static str {
    let holds = |ty: &str| cells::condition(obj, ty) == "True";
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if cells::deleting(obj) => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

pub(super) const CRON_JOBS: Table = (
    &[
        NAME,
        text("Schedule", "When jobs start, in cron notation."),
        text("Timezone", "Time zone the schedule is read in."),
        col("Suspend", "boolean", "Whether no jobs are started."),
        int("Active", "Number of jobs that run."),
        text("Last Schedule", "Time since a job was last started."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |obj, now| {
        let suspend = match at(obj, &["spec", "suspend"]).and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => cells::UNSET,
        };
        let last = at(obj, &["status", "lastScheduleTime"]).filter(|t| t.is_string());
        let mut cells = vec![
            cells::name(obj),
            cells::string(obj, &["spec", "schedule"]),
            cells::string_or(obj, &["spec", "timeZone"], NONE),
            json!(suspend),
            json!(at(obj, &["status"]).map_or(0, |s| list(s, "active").len())),
            json!(last.map_or_else(|| NONE.to_owned(), |t| cells::since(Some(t), now))),
            cells::age(obj, now),
        ];
        let (names, images) =
            cells::containers(at(obj, &["spec", "jobTemplate", "spec", "template", "spec"]));
        let selector = cells::selector(at(obj, &["spec", "jobTemplate", "spec", "selector"]));
        cells.extend([names, images, json!(selector)]);
        cells
    },
);
