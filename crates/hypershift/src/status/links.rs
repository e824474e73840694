//! Private endpoints: the worst of what each reports.

use super::Seen;
use apis::conditions::{private_link, reason};
use apis::hypershift::platform::PrivateType;
use jiff::Timestamp;
use reconcile::conditions::{Conditions, Finding, Polarity, Status, aggregate};

pub fn write(all: &mut Conditions, seen: &Seen<'_>, generation: Option<i64>, now: Timestamp) {
    let azure = seen.hc.spec.shared.platform.azure.as_ref();
    let private = azure.and_then(|a| a.private.as_ref()).is_some_and(|p| p.type_ == PrivateType::PrivateLink);
    if !private {
        for kind in private_link::ALL {
            all.remove(kind);
        }
        return;
    }
    let each: Vec<(String, Conditions)> = seen
        .links
        .iter()
        .map(|o| (o.metadata.name.clone().unwrap_or_default(), Conditions::of(&o.data["status"])))
        .collect();
    for kind in private_link::ALL {
        let children = each.iter().map(|(name, c)| (name.as_str(), c.get(kind)));
        let mut worst = aggregate(kind, kind, children, Polarity::default());
        if each.is_empty() {
            let nothing = "no private endpoint is made yet";
            worst = Finding::new(kind, Status::Unknown, reason::STATUS_UNKNOWN, nothing);
        }
        match worst.status {
            Status::True => {
                worst.reason = reason::AZURE_SUCCESS.to_owned();
                worst.message = "all private links are as they should be".to_owned();
            }
            // The message says whose it is, and why.
            Status::False => worst.reason = reason::AZURE_ERROR.to_owned(),
            Status::Unknown => {}
        }
        all.set(worst, generation, now);
    }
}
