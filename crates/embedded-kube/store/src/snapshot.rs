//! Writing a snapshot: the whole state in one file, complete or absent.

use crate::record::{self, Record};
use crate::table::{Cluster, Clusters, Objects, Staged};
use crate::{ClusterId, TableName};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// The state of one cluster, cheap to take because tables are persistent maps.
pub(crate) struct Frozen {
    pub(crate) cluster: ClusterId,
    pub(crate) revision: u64,
    pub(crate) tables: Vec<(TableName, u64, Objects)>,
}

/// All clusters as they are.
pub(crate) fn freeze(clusters: &Clusters) -> Vec<Frozen> {
    let one = |(id, c): (&ClusterId, &Arc<parking_lot::RwLock<Cluster>>)| {
        let c = c.read();
        // A restarted server has no ring, so each table's floor is its last change.
        let tables =
            (c.tables.iter()).map(|(n, t)| (n.clone(), t.last_change(), t.objects.clone())).collect();
        Frozen { cluster: id.clone(), revision: c.revision, tables }
    };
    clusters.iter().map(one).collect()
}

/// The state as frames, the last of which says how many objects there were.
pub(crate) fn frames(state: &[Frozen], out: &mut impl Write) -> io::Result<()> {
    let mut frame = Vec::new();
    let mut objects = 0u64;
    for f in state {
        let floors = f.tables.iter().map(|(t, floor, _)| (Arc::clone(t), *floor)).collect();
        frame.clear();
        record::frame(
            &mut frame,
            &Record::ClusterHead { cluster: f.cluster.clone(), revision: f.revision, floors },
        );
        out.write_all(&frame)?;
        for (table, _, map) in &f.tables {
            for (key, entry) in map {
                frame.clear();
                let change =
                    Staged { table: table.clone(), key: key.clone(), entry: entry.clone(), deleted: false };
                record::frame(
                    &mut frame,
                    &Record::Commit { cluster: f.cluster.clone(), changes: vec![change] },
                );
                out.write_all(&frame)?;
                objects += 1;
            }
        }
    }
    frame.clear();
    record::frame(&mut frame, &Record::End { objects });
    out.write_all(&frame)
}

/// Writes `snap-N`, then removes what it makes superfluous.
pub(crate) fn write(dir: &Path, n: u64, state: &[Frozen]) -> io::Result<()> {
    let path = crate::log::snapshot_path(dir, n);
    let tmp = path.with_extension("tmp");
    let mut out = BufWriter::with_capacity(64 << 10, File::create(&tmp)?);
    frames(state, &mut out)?;
    out.into_inner().map_err(|e| e.into_error())?.sync_all()?;
    fs::rename(&tmp, &path)?;
    crate::log::sync_dir(dir)?;
    for old in 0..n {
        // Numbers below the previous snapshot are long gone; removing a missing file is no error.
        for p in [crate::log::segment_path(dir, old), crate::log::snapshot_path(dir, old)] {
            match fs::remove_file(&p) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
    }
    Ok(())
}
