//! Leaves: what is wanted of a certificate, and whether the one there is will do.

use crate::authority::{Authority, SKEW};
use crate::pair::{Facts, KeyKind, Pair};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Server,
    Client,
    Both,
}

impl Usage {
    pub fn server(self) -> bool {
        self != Usage::Client
    }

    pub fn client(self) -> bool {
        self != Usage::Server
    }
}

/// A certificate as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub common_name: String,
    pub organization: Option<String>,
    pub dns: BTreeSet<String>,
    pub ips: BTreeSet<IpAddr>,
    pub usage: Usage,
    pub key: KeyKind,
    pub life: SignedDuration,
    /// How long before its end it is issued again.
    pub renew_before: SignedDuration,
}

const DAY: SignedDuration = SignedDuration::from_hours(24);

impl Leaf {
    fn new(common_name: impl Into<String>, usage: Usage) -> Leaf {
        Leaf {
            common_name: common_name.into(),
            organization: None,
            dns: BTreeSet::new(),
            ips: BTreeSet::new(),
            usage,
            key: KeyKind::P256,
            life: DAY * 365,
            renew_before: DAY * 30,
        }
    }

    /// What serves under these names.
    pub fn server<S: Into<String>>(common_name: impl Into<String>, dns: impl IntoIterator<Item = S>) -> Leaf {
        let mut leaf = Leaf::new(common_name, Usage::Server);
        leaf.dns = dns.into_iter().map(Into::into).collect();
        leaf
    }

    /// Who a client is: a user and the group it belongs to.
    pub fn client(user: impl Into<String>, group: impl Into<String>) -> Leaf {
        let mut leaf = Leaf::new(user, Usage::Client);
        leaf.organization = Some(group.into()).filter(|g: &String| !g.is_empty());
        leaf
    }

    pub fn both(mut self) -> Leaf {
        self.usage = Usage::Both;
        self
    }

    pub fn of(mut self, organization: impl Into<String>) -> Leaf {
        self.organization = Some(organization.into());
        self
    }

    pub fn at(mut self, ips: impl IntoIterator<Item = IpAddr>) -> Leaf {
        self.ips.extend(ips);
        self
    }

    pub fn living(mut self, life: SignedDuration, renew_before: SignedDuration) -> Leaf {
        self.life = life;
        self.renew_before = renew_before;
        self
    }

    /// Whether what is stored will do, and if not, why.
    pub fn assess(&self, stored: Option<&Pair>, issuer: &Authority, now: Timestamp) -> Verdict {
        let Some(pair) = stored else { return Verdict::Issue(Why::Missing) };
        let Ok(facts) = pair.facts() else { return Verdict::Issue(Why::Unreadable) };
        if !matches!(pair.fits(), Ok(true)) {
            return Verdict::Issue(Why::Key);
        }
        if !matches!(issuer.signed(&pair.cert), Ok(true)) {
            return Verdict::Issue(Why::Issuer);
        }
        if let Some(why) = self.differs(&facts) {
            return Verdict::Issue(why);
        }
        let renew = facts.not_after.checked_sub(self.renew_before).unwrap_or(Timestamp::MIN);
        if now >= renew {
            return Verdict::Issue(Why::Ending { at: facts.not_after });
        }
        Verdict::Keep { until: renew }
    }

    fn differs(&self, facts: &Facts) -> Option<Why> {
        let organizations: BTreeSet<String> = self.organization.iter().cloned().collect();
        if facts.common_name != self.common_name || facts.organizations != organizations {
            return Some(Why::Subject);
        }
        if facts.dns != self.dns || facts.ips != self.ips {
            let missing = self.dns.difference(&facts.dns).cloned();
            let missing = missing.chain(self.ips.difference(&facts.ips).map(ToString::to_string)).collect();
            let extra = facts.dns.difference(&self.dns).cloned();
            let extra = extra.chain(facts.ips.difference(&self.ips).map(ToString::to_string)).collect();
            return Some(Why::Names { missing, extra });
        }
        if facts.server != self.usage.server() || facts.client != self.usage.client() {
            return Some(Why::Usage);
        }
        // Seconds are all a certificate knows.
        let life = facts.not_after.duration_since(facts.not_before).as_secs();
        (life.abs_diff((self.life + SKEW).as_secs()) > 1).then_some(Why::Life)
    }
}

/// What is to be done with a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It will do until then.
    Keep {
        until: Timestamp,
    },
    Issue(Why),
}

/// Why a certificate is issued (again).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Missing,
    Unreadable,
    /// The stored key is another one's.
    Key,
    /// Somebody else signed it.
    Issuer,
    Subject,
    Names {
        missing: Vec<String>,
        extra: Vec<String>,
    },
    Usage,
    Life,
    Ending {
        at: Timestamp,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Missing => f.write_str("there is none"),
            Why::Unreadable => f.write_str("it cannot be read"),
            Why::Key => f.write_str("its key is not its own"),
            Why::Issuer => f.write_str("its authority did not sign it"),
            Why::Subject => f.write_str("its subject is another"),
            Why::Names { missing, extra } => {
                f.write_str("its names differ")?;
                if !missing.is_empty() {
                    write!(f, ", missing {}", missing.join(", "))?;
                }
                if !extra.is_empty() {
                    write!(f, ", not wanted {}", extra.join(", "))?;
                }
                Ok(())
            }
            Why::Usage => f.write_str("it is for something else"),
            Why::Life => f.write_str("its life is not as long as wanted"),
            Why::Ending { at } => write!(f, "it ends at {at}"),
        }
    }
}
