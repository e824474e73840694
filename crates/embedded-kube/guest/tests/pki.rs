//! The certificates of a hosted cluster, as a control plane operator would make them.

use ek_auth::pki::{Authority, Pair};
use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;

pub struct Pki {
    pub root: Authority,
    pub clients: Authority,
    pub aggregator: Authority,
    pub etcd: Authority,
    pub sa: KeyPair,
    pub ns: String,
}

fn now() -> Timestamp {
    clock::system().now()
}

fn authority(name: &str) -> Authority {
    Authority::generate(name, now()).unwrap()
}

pub const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);

impl Pki {
    pub fn new(ns: &str) -> Pki {
        Pki {
            root: authority("root-ca"),
            clients: authority("system-admin-signer"),
            aggregator: authority("kas-aggregator-client-signer"),
            etcd: authority("etcd-signer"),
            // Elliptic: a hundred RSA keys would be the slowest thing in these tests. One test has an RSA key.
            sa: KeyPair::generate().unwrap(),
            ns: ns.to_owned(),
        }
    }

    pub fn server(authority: &Authority, names: &[String]) -> Pair {
        let ips = ["127.0.0.1".parse().unwrap()];
        authority.issue_server(names, &ips, now()).unwrap()
    }

    pub fn api_names(&self) -> Vec<String> {
        let ns = &self.ns;
        vec![
            "localhost".into(),
            "kubernetes".into(),
            "kube-apiserver".into(),
            format!("kube-apiserver.{ns}.svc"),
            format!("api.{ns}.example.com"),
        ]
    }

    pub fn etcd_names(&self) -> Vec<String> {
        let ns = &self.ns;
        vec!["localhost".into(), format!("etcd-client.{ns}.svc"), format!("*.etcd-discovery.{ns}.svc")]
    }

    pub fn admin(&self) -> Pair {
        client(&self.clients, "system:admin", "system:masters")
    }
}

pub fn client(authority: &Authority, user: &str, group: &str) -> Pair {
    authority.issue_client(user, group, now(), YEAR).unwrap()
}

pub fn new_authority(name: &str) -> Authority {
    authority(name)
}
