//! Flags that do not fit together, and what to do then.
//!
//! Rules that need no more than "these two" are declared where the flags are (`conflicts_with`, `requires`), so that help
//! and completion know them. What the parser says of them names the flags and no way out; the way out is here, one row per
//! rule, and is told as every other refusal is. A test holds that no rule is without its row.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use self_managed::Refused;

/// Either of the two, or neither.
const TOGETHER: &[(&str, &str, &str)] = &[
    ("--data-dir", "--in-memory", "keep everything in a directory, or nothing: leave one of them out"),
    ("--nth", "--every", "one request of a row, or each so manieth: leave one of them out"),
    ("--commit-only", "--output", "a commit is one word and has no other form: leave --output out"),
    (
        "--commit-only",
        "--client-only",
        "the commit is this program's and asks no cluster anyway: leave one of them out",
    ),
    (
        "--watch",
        "--output",
        "a view that stays is for people; programs use -o json without --watch, or `kubectl get -w`",
    ),
    (
        "--dump-guest-cluster",
        "--dump-guest-cluster-through-kube-service",
        "both dump the guest: leave the first out where Services are reached (in a pod), the second everywhere else",
    ),
    (
        "--workload-identities-file",
        "--managed-identities-file",
        "a self-managed cluster has the first alone, the managed flavour the second with --data-plane-identities-file",
    ),
    (
        "--workload-identities-file",
        "--data-plane-identities-file",
        "a self-managed cluster has the first alone, the managed flavour the second with --managed-identities-file",
    ),
    (
        "--rotate",
        "--retire-old",
        "a key that is changed must stay published for a while: run with --rotate now, and with --retire-old when the old tokens have ended",
    ),
    (
        "--retire-old",
        "--key",
        "--retire-old keeps the key that signs, and --key brings another: change over first, retire in a second run",
    ),
    ("--kubeconfig-out", "--data-dir", "the directory knows its kubeconfig: leave --kubeconfig-out out"),
    ("--to", "--release-image", ONE_RELEASE),
    ("--to", "--release-stream", ONE_RELEASE),
    ("--release-image", "--release-stream", ONE_RELEASE),
];

const ONE_RELEASE: &str = "say which release once: by version, by image, or as the newest of a stream";

/// The first only with the second; without a first: the second must be there.
const NEEDS: &[(&str, &str, &str)] = &[
    (
        "--scale-from-zero-provider",
        "--scale-from-zero-creds",
        "sizes are asked for with that account; give its file, or leave both out",
    ),
    (
        "--managed-identities-file",
        "--data-plane-identities-file",
        "`zaffre create managed-identities azure` writes both; give both",
    ),
    (
        "--data-plane-identities-file",
        "--managed-identities-file",
        "`zaffre create managed-identities azure` writes both; give both",
    ),
    (
        "",
        "--workload-identities-file",
        "give what `zaffre create iam azure` wrote, or both files of `zaffre create managed-identities azure` (--managed-identities-file, --data-plane-identities-file)",
    ),
    ("--assign-identity-roles", "--dns-zone-rg-name", ROLES),
    ("--auto-assign-roles", "--dns-zone-rg-name", ROLES),
    ("--assign-custom-hcp-roles", "--dns-zone-rg-name", ROLES),
    ("--name", "--infra-id", NAMES),
    ("--infra-id", "--name", NAMES),
    ("--renew-before", "--renew", "it says which certificates --renew renews; add that, or leave it out"),
    ("--timeout", "--wait", "it says how long --wait waits; add that, or leave it out"),
    ("--code", "--status", STATUS),
    ("--html", "--status", STATUS),
    ("--retry-after", "--status", STATUS),
    ("", "--to", "say which release: --to VERSION, --release-image IMAGE or --release-stream STREAM"),
];

const ROLES: &str =
    "the ingress identity gets a role at the group of the public zone; name it, or leave the roles out";
const NAMES: &str = "names in Azure are made from both; give both, or neither";
pub const STATUS: &str = "only an error that is answered has one; add --status 400-599, or leave it out";

/// The flag of `--flag <VALUE>`, as the parser shows it.
fn flag(shown: &str) -> Option<&str> {
    let at = shown.find("--")?;
    let word = &shown[at..];
    Some(word.split([' ', '=', '<', '>', '|', '[']).next().unwrap_or(word))
}

fn said(e: &clap::Error, kind: ContextKind) -> Vec<String> {
    match e.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    }
}

/// The same refusal, with its way out; nothing if it is none of these. `words` is the command line.
pub fn explained(e: &clap::Error, words: &[String]) -> Option<Refused> {
    let args = said(e, ContextKind::InvalidArg);
    let given = |name: &str| words.iter().any(|w| w.split('=').next() == Some(name));
    match e.kind() {
        ErrorKind::ArgumentConflict => {
            let prior = said(e, ContextKind::PriorArg);
            let (one, other) = (flag(args.first()?)?, flag(prior.first()?)?);
            let row = TOGETHER.iter().find(|(a, b, _)| (*a, *b) == (one, other) || (*a, *b) == (other, one));
            row.map(|(a, b, fix)| Refused::together(a, b, fix))
        }
        ErrorKind::MissingRequiredArgument => {
            let absent: Vec<&str> = args.iter().filter_map(|a| flag(a)).collect();
            let row = |(a, b, _): &&(&str, &str, &str)| absent.contains(b) && (a.is_empty() || given(a));
            // Who needs it says more than that it is needed.
            let found = NEEDS.iter().filter(row).min_by_key(|(a, ..)| a.is_empty())?;
            Some(match found {
                ("", b, fix) => Refused::missing(b, fix),
                (a, b, fix) => Refused::needs(a, b, fix),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    fn told(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let Err(e) = Cli::try_parse_from(&words) else { panic!("{line} is taken") };
        explained(&e, &words).unwrap_or_else(|| panic!("{line}: {e}")).to_string()
    }

    #[test]
    fn every_rule_names_both_flags_and_the_way_out() {
        let infra = "zaffre create infra azure --name n --infra-id i --base-domain d --azure-creds c";
        for (line, first, second, way) in [
            (
                "zaffre dump cluster --artifact-dir d --dump-guest-cluster --dump-guest-cluster-through-kube-service",
                "--dump-guest-cluster",
                "--dump-guest-cluster-through-kube-service",
                "leave the first out",
            ),
            (
                &format!(
                    "{infra} --workload-identities-file w --managed-identities-file m --data-plane-identities-file d"
                ),
                "--workload-identities-file",
                "--managed-identities-file",
                "self-managed",
            ),
            (
                &format!("{infra} --managed-identities-file m"),
                "--managed-identities-file",
                "--data-plane-identities-file",
                "give both",
            ),
            (
                &format!("{infra} --data-plane-identities-file m"),
                "--data-plane-identities-file",
                "--managed-identities-file",
                "give both",
            ),
            (infra, "--workload-identities-file", "is missing", "create iam azure"),
            (
                &format!("{infra} --workload-identities-file w --assign-identity-roles"),
                "--assign-identity-roles",
                "--dns-zone-rg-name",
                "leave the roles out",
            ),
            (
                &format!("{infra} --workload-identities-file w --auto-assign-roles"),
                "--auto-assign-roles",
                "--dns-zone-rg-name",
                "leave the roles out",
            ),
            (
                &format!("{infra} --workload-identities-file=w --assign-custom-hcp-roles"),
                "--assign-custom-hcp-roles",
                "--dns-zone-rg-name",
                "leave the roles out",
            ),
            ("zaffre doctor azure --name n", "--name", "--infra-id", "give both"),
            ("zaffre doctor azure --infra-id=n", "--infra-id", "--name", "give both"),
            ("zaffre status --watch -o json", "--watch", "--output", "programs use"),
            ("zaffre upgrade cluster demo --to 4.20.1 --timeout 5m", "--timeout", "--wait", "leave it out"),
            ("zaffre upgrade cluster demo", "--to", "--release-stream", "say which release"),
            ("zaffre upgrade nodepool demo --to 4.20.1 --release-image x", "--to", "--release-image", "once"),
            ("zaffre azure faults add --code X", "--code", "--status", "add --status"),
        ] {
            let text = told(line);
            assert!([first, second, way].iter().all(|w| text.contains(w)), "{line}: {text}");
        }
    }

    #[test]
    fn no_conflict_is_without_its_way_out() {
        fn walk(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            for arg in command.get_arguments() {
                for other in command.get_arg_conflicts_with(arg) {
                    let (Some(a), Some(b)) = (arg.get_long(), other.get_long()) else { continue };
                    let (a, b) = (format!("--{a}"), format!("--{b}"));
                    let row = TOGETHER.iter().any(|(x, y, _)| (*x == a && *y == b) || (*x == b && *y == a));
                    assert!(row, "{path}: what is to be done about {a} and {b}?");
                }
            }
            command.get_subcommands().for_each(|c| walk(c, &path));
        }
        let mut command = Cli::command();
        command.build();
        walk(&command, "");
    }
}
