//! Counters in the Prometheus text format. Labels are classes, never names of clusters or objects.

use crate::cluster::Cluster;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

impl Metrics {
    pub fn observe(&self, verb: &'static str, code: u16) {
        *self.requests.lock().entry((verb, code)).or_default() += 1;
    }

    pub fn text(&self, cluster: &Cluster) -> String {
        let mut out = String::from(
            "# HELP apiserver_request_total Requests by verb and code.\n# TYPE apiserver_request_total counter\n",
        );
        for ((verb, code), n) in self.requests.lock().iter() {
            let _ = writeln!(
                out,
                "apiserver_request_total{{code=\"{code}\",verb=\"{}\"}} {n}",
                verb.to_uppercase()
            );
        }
        out.push_str("# HELP apiserver_storage_objects Stored objects by resource.\n# TYPE apiserver_storage_objects gauge\n");
        let mut sizes = cluster.store.table_sizes(&cluster.id);
        sizes.sort();
        for (table, n) in sizes {
            let (group, plural) = table.split_once('/').unwrap_or(("", &table));
            let _ = writeln!(
                out,
                "apiserver_storage_objects{{resource=\"{}\"}} {n}",
                ek_meta::gvk::group_resource(group, plural)
            );
        }
        out
    }
}
