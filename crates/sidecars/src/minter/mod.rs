//! The token minter: a token of a guest's service account, always fresh, in a file.
//!
//! ```text
//! kubeconfig ─> guest API: get or create the account ─> TokenRequest ─> file (moved into place)
//!      ▲                                                                  │
//!      └──────── at 80 % of the token's life, a little earlier by chance ─┘   (after a failure: soon, then every 10 s)
//! ```
//!
//! Whoever reads the file needs no word from us: it is complete at any time, and good for at least a fifth of a token's
//! life. When the guest's API is away for longer than that, the old token stays where it is; a reader with an expired
//! token is told so by whoever it shows it to, which is more than an absent file says.
//!
//! The account is made if it is not there, because federated credentials name accounts of operators that may start
//! before the guest has them. An account that was deleted and made again has another uid: tokens of the old one are
//! refused by the guest (Azure does not look), and the next renewal mints for the new one.

mod args;

pub use args::Args;

use crate::connect::CALL;
use crate::{ConnectError, FileError, Place, Timing, chain, file};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio_util::sync::CancellationToken;

/// After failures: the first wait, and the longest. A minter starts with the control plane, and what it lacks most
/// often comes within moments.
const FIRST: SignedDuration = SignedDuration::from_millis(50);
const SOON: SignedDuration = SignedDuration::from_millis(200);
/// How many tries are soon: those of the first ten seconds or so.
const EAGER: u32 = 50;
const RETRY: SignedDuration = SignedDuration::from_secs(10);
/// No renewal follows sooner, whatever the token says of its life.
const SOONEST: SignedDuration = SignedDuration::from_secs(1);
/// Steps of chance.
const STEPS: usize = 1 << 10;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot reach the guest's API")]
    Connect(#[from] ConnectError),
    #[error("cannot {action} service account {account}")]
    Account { action: &'static str, account: String, source: Box<kube::Error> },
    #[error("cannot mint a token of {account} for {audience:?} (--token-audience)")]
    Mint { account: String, audience: String, source: Box<kube::Error> },
    #[error("no answer within {CALL:?} when asked to {action} {account}")]
    Slow { action: &'static str, account: String },
    #[error("the answer to the request for a token of {0} holds none")]
    Empty(String),
    #[error(transparent)]
    File(#[from] FileError),
}

/// When a token that was minted now is replaced: after 72 to 80 per cent of its life. `chance` is below 1.
fn renewal(now: Timestamp, expires: Timestamp, chance: f64) -> Timestamp {
    let life = expires.duration_since(now);
    let part = life.as_secs_f64() * 0.8 * (1.0 - 0.1 * chance);
    let wait = SignedDuration::try_from_secs_f64(part).unwrap_or(SOONEST).max(SOONEST);
    now.checked_add(wait).unwrap_or(expires)
}

/// Runs until it is told to stop, or once; returns the exit code.
pub async fn run(args: &Args, place: &dyn Place, timing: &Timing, stop: &CancellationToken) -> i32 {
    let (account, audience) = (args.account(), &args.token_audience);
    let (mut said, mut wait, mut failures) = (String::new(), FIRST, 0u32);
    loop {
        let moved = place.moved();
        // A token's life begins when it is asked for, at the latest.
        let begun = timing.clock.now();
        let tried = tokio::select! {
            () = stop.cancelled() => return 0,
            t = mint(args, place, timing) => t,
        };
        let again = match tried {
            Ok(expires) => {
                let chance = timing.random.below(STEPS) as f64 / STEPS as f64;
                let at = renewal(begun, expires, chance);
                said.clear();
                (wait, failures) = (FIRST, 0);
                let rest = if args.oneshot { String::new() } else { format!("; the next at {at:.0}") };
                place.say(&format!(
                    "minted a token of {account} for {audience:?}, good until {expires:.0}{rest}"
                ));
                if args.oneshot {
                    return 0;
                }
                at
            }
            Err(e) => {
                let lost = matches!(e, Error::Connect(_));
                let why = chain(&e);
                // The same trouble is said once.
                if why != said {
                    place.say(&format!("no token of {account}: {why}"));
                    said = why;
                }
                if args.oneshot {
                    return 1;
                }
                let rest = wait;
                failures = failures.saturating_add(1);
                wait = (wait * 2).min(if failures < EAGER { SOON } else { RETRY });
                let now = timing.clock.now();
                let at = now.checked_add(rest).unwrap_or(now);
                tokio::select! {
                    () = moved, if lost => at.min(timing.clock.now()),
                    woken = timing.until(at, stop) => match woken {
                        true => at,
                        false => return 0,
                    },
                }
            }
        };
        if !timing.until(again, stop).await {
            return 0;
        }
    }
}

/// One token, into its file; when it ends.
async fn mint(args: &Args, place: &dyn Place, timing: &Timing) -> Result<Timestamp, Error> {
    let account = args.account();
    let target = &args.token_file;
    let path = place.path(target).ok_or_else(|| FileError::NoPlace(target.clone()))?;
    let client = args.kubeconfig_from().client(place).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &args.service_account_namespace);
    let name = &args.service_account_name;
    ensure(&accounts, name, &account).await?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec![args.token_audience.clone()],
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let params = PostParams::default();
    let asked = tokio::time::timeout(CALL, accounts.create_token_request(name, &params, &request)).await;
    let asked = asked.map_err(|_| Error::Slow { action: "mint a token of", account: account.clone() })?;
    let status = asked.map_err(|e| Error::Mint {
        account: account.clone(),
        audience: args.token_audience.clone(),
        source: Box::new(e),
    })?;
    let status = status.status.filter(|s| !s.token.is_empty()).ok_or(Error::Empty(account))?;
    let salt = timing.random.uuid();
    let written = tokio::task::spawn_blocking({
        let path = path.clone();
        move || file::replace(&path, status.token.as_bytes(), &salt)
    });
    written.await.map_err(|e| FileError::Write { path, source: std::io::Error::other(e) })??;
    place.replaced(target);
    Ok(status.expiration_timestamp.0)
}

async fn ensure(accounts: &Api<ServiceAccount>, name: &str, account: &str) -> Result<(), Error> {
    let failed = |action, e| Error::Account { action, account: account.to_owned(), source: Box::new(e) };
    let slow = |action| Error::Slow { action, account: account.to_owned() };
    let found = tokio::time::timeout(CALL, accounts.get_opt(name)).await;
    let found = found.map_err(|_| slow("read service account"))?;
    if found.map_err(|e| failed("read", e))?.is_some() {
        return Ok(());
    }
    let new = ServiceAccount {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    let made = tokio::time::timeout(CALL, accounts.create(&PostParams::default(), &new)).await;
    match made.map_err(|_| slow("create service account"))? {
        Ok(_) => Ok(()),
        // Somebody was quicker; two minters may share an account.
        Err(kube::Error::Api(s)) if s.is_already_exists() => Ok(()),
        Err(e) => Err(failed("create", e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_is_at_four_fifths_or_a_little_earlier() {
        let now = Timestamp::from_second(1000).unwrap();
        let after = |expires: i64, chance| {
            renewal(now, Timestamp::from_second(expires).unwrap(), chance).duration_since(now).as_secs()
        };
        assert_eq!(after(4600, 0.0), 2880);
        assert_eq!(after(4600, 0.5), 2736);
        assert_eq!(after(4600, 0.999), 2592);
        assert_eq!(after(1001, 0.0), 1, "a short life is no reason to ask all the time");
        assert_eq!(after(900, 0.0), 1, "nor is a clock that is ahead");
    }
}
