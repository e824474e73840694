//! The keys of a KMS, brought to an API server that serves already, and whether their plugin is still well.

use crate::tls::chain;
use ek_node::ProgramContext;
use ek_server::{ApiServer, Door, Encryption};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
/// kube-apiserver looks after a plugin that is well every minute, and after one that is not every ten seconds.
const WELL: Duration = Duration::from_secs(60);
const UNWELL: Duration = Duration::from_secs(10);

/// Never ends. What is wrong is said where readiness is asked, and in the log when it changes.
pub(super) async fn keep(
    ctx: &ProgramContext,
    door: &Door,
    server: &ApiServer,
    encryption: Option<&Encryption>,
) {
    let Some(encryption) = encryption else { return std::future::pending().await };
    let (mut said, mut wait, mut brought) = (String::new(), FIRST, false);
    loop {
        // Objects that could not be read are tried again: a version of a key may have been enabled meanwhile.
        let outcome = match brought && !server.store().has_locked() {
            true => encryption.check().await.map_err(|e| chain(&e)),
            false => server.bring_keys(encryption).await.map_err(|e| chain(&e)),
        };
        match outcome {
            Ok(()) => {
                if !brought || !said.is_empty() {
                    ctx.log("kms-providers: keys are here and the plugin is well");
                    said.clear();
                }
                (brought, wait) = (true, WELL);
                door.set_kms(None);
            }
            Err(why) => {
                if why != said {
                    ctx.log(format!("kms-providers: {why}"));
                    said.clone_from(&why);
                }
                wait = if brought { UNWELL } else { (wait * 2).min(UNWELL) };
                door.set_kms(Some(why));
            }
        }
        tokio::time::sleep(wait).await;
    }
}
