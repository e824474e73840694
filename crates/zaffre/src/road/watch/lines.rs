//! The view without a terminal: one line whenever something that matters is different.

use super::Change;
use super::board::{Part, condition, text};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Lines(BTreeMap<String, String>);

impl Lines {
    /// What to print, if anything; `only` is the cluster that was asked for.
    pub fn tell(&mut self, change: &Change, only: Option<&str>) -> Option<String> {
        let (part, object, gone) = match change {
            Change::Is(part, object) => (*part, object, false),
            Change::Gone(part, object) => (*part, object, true),
            Change::Trouble(why) => return Some(format!("trouble       {why}")),
            Change::Reset(..) | Change::Azure(_) => return None,
        };
        let name = format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let cluster = match part {
            Part::Cluster => text(object, "/metadata/name"),
            Part::Pool => text(object, "/spec/clusterName"),
            _ => "",
        };
        if only.is_some_and(|o| !cluster.is_empty() && cluster != o) {
            return None;
        }
        let (kind, state) = match part {
            Part::Cluster => ("hostedcluster", super::view::state(object).to_owned()),
            Part::Pool => ("nodepool", super::view::pool_words(object)),
            Part::Component => ("component", super::view::component_words(object)),
            Part::Machine => ("machine", text(object, "/status/phase").to_owned()),
            Part::Event => {
                let what = format!("{} {}", text(object, "/reason"), text(object, "/message"));
                (
                    "event",
                    format!(
                        "{} {}: {what}",
                        text(object, "/involvedObject/kind"),
                        text(object, "/involvedObject/name")
                    ),
                )
            }
        };
        let state = if gone { "gone".to_owned() } else { state };
        let version = match part {
            Part::Cluster => super::super::status::version(object),
            Part::Pool | Part::Component => text(object, "/status/version").to_owned(),
            Part::Machine | Part::Event => String::new(),
        };
        let why = match part {
            Part::Cluster if state == "waiting" => condition(object, "Available", "message"),
            _ => "",
        };
        let words =
            [version.as_str(), state.as_str(), why].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>();
        let line = format!("{kind:<13} {name}  {}", words.join("  "));
        let key = format!("{kind} {name}");
        // Events speak for themselves, and are told once each.
        if gone && part == Part::Event {
            return None;
        }
        (self.0.insert(key, line.clone()).as_ref() != Some(&line)).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_the_same_is_not_said_again() {
        let mut lines = Lines::default();
        let hc = |status: &str| {
            Change::Is(
                Part::Cluster,
                json!({"metadata": {"name": "road", "namespace": "clusters"},
                "status": {"version": {"history": [{"state": "Completed", "version": "4.20.1"}]},
                    "conditions": [{"type": "Available", "status": status, "message": "etcd waits"}]}}),
            )
        };
        assert_eq!(
            lines.tell(&hc("False"), None).as_deref(),
            Some("hostedcluster clusters/road  4.20.1  waiting  etcd waits")
        );
        assert_eq!(lines.tell(&hc("False"), None), None);
        assert_eq!(
            lines.tell(&hc("True"), None).as_deref(),
            Some("hostedcluster clusters/road  4.20.1  available")
        );
        assert_eq!(lines.tell(&hc("False"), Some("other")), None);
    }
}
