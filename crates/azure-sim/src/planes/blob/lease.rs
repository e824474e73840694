//! Leases of blobs: one writer at a time. Those of containers are not simulated.

use crate::planes::blob::{Blob, Desk, Lease, Refusal, http_date};
use crate::wire::Reply;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};

fn held(lease: Option<&Lease>, now: Timestamp) -> Option<&Lease> {
    lease.filter(|l| l.until.is_none_or(|t| t > now))
}

/// Status and state, as clients are told.
pub fn words(lease: Option<&Lease>, now: Timestamp) -> (&'static str, &'static str) {
    match (held(lease, now), lease) {
        (Some(_), _) => ("locked", "leased"),
        (None, Some(_)) => ("unlocked", "expired"),
        (None, None) => ("unlocked", "available"),
    }
}

/// A leased blob is written with its lease only.
pub fn check(desk: &Desk<'_>, blob: Option<&Blob>) -> Result<(), Refusal> {
    let given = desk.ask.call.header("x-ms-lease-id");
    let lease = blob.and_then(|b| held(b.lease.as_ref(), desk.now));
    let refuse = |code, m: &str| Err(Refusal::new(StatusCode::PRECONDITION_FAILED, code, m));
    match (lease, given) {
        (None, None) => Ok(()),
        (Some(l), Some(g)) if l.id.eq_ignore_ascii_case(g) => Ok(()),
        (Some(_), None) => refuse(
            "LeaseIdMissing",
            "There is currently a lease on the blob and no lease ID was specified in the request.",
        ),
        (Some(_), Some(_)) => refuse(
            "LeaseIdMismatchWithBlobOperation",
            "The lease ID specified did not match the lease ID for the blob.",
        ),
        (None, Some(_)) => {
            refuse("LeaseNotPresentWithBlobOperation", "There is currently no lease on the blob.")
        }
    }
}

pub fn answer(desk: &mut Desk<'_>, new_id: String) -> Result<Reply, Refusal> {
    let mut b = desk.need_blob()?.clone();
    let now = desk.now;
    let header = |name: &str| desk.ask.call.header(name).map(str::to_owned);
    let conflict = |code, m: &str| Refusal::new(StatusCode::CONFLICT, code, m);
    let bad = || {
        Refusal::bad(
            "InvalidHeaderValue",
            "The value for one of the HTTP headers is not in the correct format.",
        )
    };
    let current = held(b.lease.as_ref(), now).cloned();
    let given = header("x-ms-lease-id");
    let mismatch = || {
        conflict(
            "LeaseIdMismatchWithLeaseOperation",
            "The lease ID specified did not match the lease ID for the blob.",
        )
    };
    let own = || match (&b.lease, &given) {
        (Some(l), Some(g)) if l.id.eq_ignore_ascii_case(g) => Ok(l.clone()),
        _ => Err(mismatch()),
    };
    let until = |text: &str| match text.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(n) if (15..=60).contains(&n) => Ok(now.checked_add(SignedDuration::from_secs(n)).ok()),
        _ => Err(bad()),
    };
    let (lease, status) = match header("x-ms-lease-action").unwrap_or_default().as_str() {
        "acquire" => {
            let proposed = header("x-ms-proposed-lease-id").unwrap_or(new_id);
            if current.as_ref().is_some_and(|l| !l.id.eq_ignore_ascii_case(&proposed)) {
                return Err(conflict("LeaseAlreadyPresent", "There is already a lease present."));
            }
            let until = until(header("x-ms-lease-duration").as_deref().unwrap_or_default())?;
            (Some(Lease { id: proposed, until }), StatusCode::CREATED)
        }
        "renew" => {
            let l = own()?;
            // As long as it was is not kept; a minute is the longest that runs out.
            let until = l.until.and_then(|_| now.checked_add(SignedDuration::from_secs(60)).ok());
            (Some(Lease { until, ..l }), StatusCode::OK)
        }
        "change" => {
            let l = own()?;
            let id = header("x-ms-proposed-lease-id").ok_or_else(bad)?;
            (Some(Lease { id, ..l }), StatusCode::OK)
        }
        "release" => {
            own()?;
            (None, StatusCode::OK)
        }
        "break" => {
            if current.is_none() {
                return Err(conflict(
                    "LeaseNotPresentWithLeaseOperation",
                    "There is currently no lease on the blob.",
                ));
            }
            (None, StatusCode::ACCEPTED)
        }
        _ => return Err(bad()),
    };
    let mut reply = Reply::empty(status).with("etag", &b.etag).with("last-modified", &http_date(b.modified));
    if let Some(l) = &lease {
        reply = reply.with("x-ms-lease-id", &l.id);
    }
    if status == StatusCode::ACCEPTED {
        reply = reply.with("x-ms-lease-time", "0");
    }
    b.lease = lease;
    desk.put_blob(b);
    Ok(reply)
}
