//! What lies in the stores: objects by table, and the bytes they are kept as.

use std::collections::BTreeMap;
use world::World;

/// To standard error, the largest first; all guests are one.
pub fn print(world: &World, count: usize) {
    let main = world.management().access("bench");
    let guest = |n: usize| world.guests().server(main.id(), &super::names(n).0);
    let guests: Vec<_> = (0..count).filter_map(guest).map(|g| g.access("bench")).collect();
    let mut all: BTreeMap<(bool, String), (usize, usize)> = BTreeMap::new();
    for (access, guest) in guests.iter().map(|g| (g, true)).chain([(&main, false)]) {
        for resource in access.resources() {
            let sum = all.entry((guest, resource.table.to_string())).or_default();
            for entry in access.table(&resource.table).objects.values() {
                sum.0 += 1;
                sum.1 += entry.len();
            }
        }
    }
    let mut all: Vec<_> = all.into_iter().filter(|(_, (n, _))| *n > 0).collect();
    all.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
    eprintln!("{} guests", guests.len());
    for ((guest, table), (count, bytes)) in all {
        let whose = if guest { "guests" } else { "management" };
        eprintln!("{:>9} KiB {count:>7} {whose} {table}", bytes / 1024);
    }
}
