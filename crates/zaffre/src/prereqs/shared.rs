//! `create oidc-issuer azure` and `create managed-identities azure`.

use super::account::{self, Azure};
use super::progress::Progress;
use super::{failures_beside, files, finish, options, say, show};
use crate::cli::prereqs::{How, Shown};
use crate::cli::shared::{ManagedArgs, OidcIssuerArgs};
use crate::output;
use anyhow::Context;
use landing_zone::Cluster;
use landing_zone::issuer::{self, Decision, Issuer, KeyDir, Keys, Published, Rotation, SigningKey, read_key};
use landing_zone::managed::{self, Managed};
use landing_zone::run;
use serde_json::json;
use std::process::ExitCode;

pub async fn oidc_issuer(a: OidcIssuerArgs, dry: bool) -> anyhow::Result<ExitCode> {
    let dry = dry || a.how.dry_run;
    let given = match &a.key {
        Some(path) => {
            Some(read_key(path)?.with_context(|| format!("there is no {} (--key)", path.display()))?)
        }
        None => None,
    };
    let rotation = match (a.rotate, a.retire_old) {
        (true, _) => Rotation::Rotate,
        (_, true) => Rotation::RetireOld,
        _ => Rotation::Keep,
    };
    let Azure { client, subscription } = account::connect(&a.account).await?;
    let issuer = Issuer::new(&a.name, subscription, &a.resource_group_name, &a.location)?;
    let issuer = Issuer { adopt: a.adopt, ..issuer };
    let dir = if dry { KeyDir::look(&a.output_dir) } else { KeyDir::open(&a.output_dir)? };
    let keys = Keys { dir, given, rotation, make: SigningKey::generate };
    let title = format!("create oidc-issuer azure: {}", a.name);
    if dry {
        let found = issuer::survey(&client, &issuer, &keys, &|_, _, _| {}).await.map_err(say::failed)?;
        return show(&title, &found, a.how.output);
    }
    let progress = Progress::new(&a.how);
    let watch = |p: run::Progress<'_>| progress.tell(&p);
    let done = issuer::create(&client, &issuer, &keys, options(&a.how), &watch).await;
    progress.end();
    let (outcome, published) = done.map_err(say::failed)?;
    finish(&title, &outcome, &[], &a.how)?;
    if let Some(p) = published {
        told(&p, &a.how);
    }
    Ok(ExitCode::SUCCESS)
}

fn told(p: &Published, how: &How) {
    if how.output != Shown::Text {
        let event = json!({"event": "result", "issuerURL": p.url, "kid": p.kid, "published": p.kids});
        return output::event(how.output, &event);
    }
    if how.quiet {
        return;
    }
    output::line(&format!("issuer   {}", p.url));
    output::line(&format!("key      {}", p.kid));
    for old in p.kids.iter().filter(|k| **k != p.kid) {
        output::line(&format!("old key  {old}  (published until --retire-old)"));
    }
    if p.decision == Decision::Rotated {
        output::note(
            "the key was rotated already: retire the old one (--retire-old) before the next rotation",
        );
    }
}

pub async fn managed_identities(a: ManagedArgs, dry: bool) -> anyhow::Result<ExitCode> {
    let Azure { client, subscription } = account::connect(&a.account).await?;
    let m = Managed {
        mark: Cluster::shared(&a.name)?,
        subscription,
        group: a.resource_group_name,
        location: a.location,
        vault: a.key_vault_name.unwrap_or_else(|| a.name.clone()),
        issuer: a.oidc_issuer_url,
        encoding: a.object_encoding.into(),
        validity: a.validity_days,
        renew: a.renew.then_some(a.renew_before),
        adopt: a.adopt,
        make: managed::new_key,
    };
    m.check()?;
    let title = format!("create managed-identities azure: {}", a.name);
    if dry || a.how.dry_run {
        let found = managed::survey(&client, &m, &|_, _, _| {}).await.map_err(say::failed)?;
        return show(&title, &found, a.how.output);
    }
    for path in [&a.managed_identities_file, &a.data_plane_identities_file] {
        files::writable(path)?;
    }
    let progress = Progress::new(&a.how);
    let watch = |p: run::Progress<'_>| progress.tell(&p);
    let done = managed::create(&client, &m, options(&a.how), &watch).await;
    progress.end();
    let made = done.map_err(say::failed)?;
    finish(&title, &made.outcome, &made.failed, &a.how)?;
    failures_beside(&title, &made.failed)?;
    if let Some((control_plane, data_plane)) = &made.files {
        for (path, text) in [
            (&a.managed_identities_file, serde_json::to_string_pretty(control_plane)?),
            (&a.data_plane_identities_file, serde_json::to_string_pretty(data_plane)?),
        ] {
            files::write(path, &text)?;
            if a.how.output == Shown::Text && !a.how.quiet {
                output::line(&format!("wrote    {}", path.display()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
