//! The Azure half of the demo: a simulator in this process, reached over TLS by the client that also reaches Azure.
//! The prerequisites of a cluster are planned, made, used by a pod's token, and taken away.

use super::Report;
use super::issuer::{self, Issuer};
use crate::azure::report;
use anyhow::{Context, bail};
use arm::ResourceId;
use azure::credential::{self, Confidential, Entra, Proof};
use azure::plan::plan;
use azure::{Call, Client, ClientOptions, Cloud, Credential, Env, Http, HttpOptions, Timing};
use azure_sim::{AzureSim, Config, Profile};
use landing_zone::destroy::{self, Destroy};
use landing_zone::iam::Iam;
use landing_zone::identities::{Identities, subject};
use landing_zone::infra::Infra;
use landing_zone::roles::Assign;
use landing_zone::run::{self, Options, Outcome, Progress};
use landing_zone::{Cluster, MadeBy, picture, survey, times};
use std::collections::BTreeMap;

/// What the simulator begins with.
const DOMAIN: &str = "example.zaffre.test";
const DNS_GROUP: &str = "zaffre-dns";
const PLACE: &str = "westeurope";

pub fn quiet(_: Progress<'_>) {}

pub async fn work(r: &mut Report) -> anyhow::Result<()> {
    let config = Config { profile: Profile::Fast, ..Config::local(1) };
    let sim = AzureSim::start(config).await?;
    r.step("Azure ready (simulated)", &sim.arm_url());
    let (client, http) = client(&sim).await?;
    let subscription = ResourceId::subscription_scope(&sim.creds().subscription_id)?;
    let issuer = Issuer::create(&client, &subscription, PLACE).await?;
    r.step("token issuer: RSA key, account, documents", &issuer.url);
    let cluster = Cluster::new("demo", "demo-x2b4c")?;
    let iam = Iam {
        cluster: cluster.clone(),
        subscription: subscription.clone(),
        group: "demo-identities".to_owned(),
        location: PLACE.to_owned(),
        issuer: issuer.url.clone(),
        kms: false,
        adopt: false,
    };
    let seen = survey::iam(&client, &iam, &|_, _, _| {}).await?;
    let first = picture::Counts::of(&plan(&seen.goal, &seen.observed)?, &seen.extras);
    let (made, ids) = run::create_iam(&client, &iam, Options::default(), &quiet).await?;
    good(&made)?;
    let ids = ids.context("the identities have no client ids")?;
    r.step("identities of a cluster: planned, made", &format!("{} resources", first.create));

    let infra = Infra {
        cluster: cluster.clone(),
        subscription: subscription.clone(),
        location: PLACE.to_owned(),
        base_domain: DOMAIN.to_owned(),
        group: None,
        tags: BTreeMap::new(),
        vnet: None,
        subnet: None,
        security_group: None,
        identities: Identities::Workload(ids.clone()),
        assign: Some(Assign { custom: false, dns_group: DNS_GROUP.to_owned(), image_registry: true }),
        nat_subnet: None,
        adopt: false,
    };
    let (seen, _) = survey::infra(&client, &infra, &|_, _, _| {}).await?;
    let steps = plan(&seen.goal, &seen.observed)?;
    let (at_once, each) = (times::expected(&steps), times::one_by_one(&steps));
    let detail = format!(
        "{} to create; in Azure about {}, {} one by one",
        steps.steps.len(),
        times::words(at_once),
        times::words(each)
    );
    r.step("infrastructure planned, nothing done yet", &detail);
    good(&run::create_infra(&client, &infra, Options::default(), &quiet).await?.0)?;
    r.step("created, each after what it needs", "groups, network, DNS, load balancer, roles");
    let (again, _) = run::create_infra(&client, &infra, Options::default(), &quiet).await?;
    if !again.plan.is_empty() {
        bail!("what was just made is not as wanted:\n{}", again.plan);
    }
    r.step("run again", "nothing to change");
    exchange(r, &sim, &http, &client, &infra, &issuer, &ids.network.client_id).await?;

    let journal = sim.world().journal_page(0, 8, None);
    let calls = sim.world().journal().len();
    r.step("journal of Azure", &format!("{calls} calls, the last {}:", 8.min(calls)));
    if r.text {
        report::journal(&journal, true);
    }
    let shared = Cluster::shared(issuer::NAME)?;
    for (cluster, by) in [(&cluster, MadeBy::Infra), (&cluster, MadeBy::Iam), (&shared, MadeBy::OidcIssuer)] {
        let (cluster, subscription) = (cluster.clone(), subscription.clone());
        let d = Destroy { cluster, subscription, by, group: None, preserve: false };
        good(&destroy::destroy(&client, &d, Options::default(), &quiet).await?.outcome)?;
    }
    let left = sim.world().leaks();
    let left = left["value"].as_array().context("the leak report has no list")?;
    if !left.is_empty() {
        bail!("resources were left over: {left:?}");
    }
    r.step("destroyed, by name and infra id", "0 resources left");
    sim.stop();
    Ok(())
}

/// A pod's token becomes one of Entra ID, with which its identity does what it may, and not what it may not.
async fn exchange(
    r: &mut Report,
    sim: &AzureSim,
    http: &Http,
    client: &Client,
    infra: &Infra,
    issuer: &Issuer,
    client_id: &str,
) -> anyhow::Result<()> {
    let account = "cloud-network-config-controller";
    let who = subject("openshift-cloud-network-config-controller", account);
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), issuer.token(&who, sim.world().now().as_second())?)?;
    let (cloud, timing) = (client.cloud().clone(), Timing::system());
    let entra = Entra { http: http.clone(), login: cloud.login.clone(), timing: timing.clone() };
    let proof = Proof::FederatedFile(file.path().to_owned());
    let source = Confidential::new(entra, &sim.creds().tenant_id, client_id, proof);
    let pod = Client::new(cloud, http.clone(), Credential::new(source, timing), ClientOptions::default());
    let at = infra.layout()?;
    let ask = |id: &ResourceId| pod.send(Call::get(format!("{id}?api-version=2024-05-01")));
    ask(&at.vnet).await.context("the network's identity may not read the network")?;
    match ask(&at.load_balancer).await {
        Err(e) if e.status() == Some(403) => {}
        other => bail!("the network's identity was not refused the load balancer: {other:?}"),
    }
    r.step("a service account's token exchanged", "reads the network; the load balancer: 403");
    Ok(())
}

pub fn good(outcome: &Outcome) -> anyhow::Result<()> {
    if let Some((id, e)) = outcome.report.failures().next() {
        bail!("{id}: {e}");
    }
    if !outcome.is_good() {
        bail!("not everything was done");
    }
    Ok(())
}

/// As any program finds its Azure: by the environment. Only the authority is handed over without a file.
async fn client(sim: &AzureSim) -> anyhow::Result<(Client, Http)> {
    let env = Env::parse(&sim.env());
    let options = HttpOptions { extra_roots: vec![sim.ca_pem().to_owned()], ..HttpOptions::from_env(&env) };
    let http = Http::new(&options)?;
    let cloud = Cloud::from_env(&http, &env).await?;
    let timing = Timing::system();
    let entra = Entra { http: http.clone(), login: cloud.login.clone(), timing: timing.clone() };
    let found = credential::from_env(&env, entra).await?;
    let credential = Credential::new(found.source, timing);
    Ok((Client::new(cloud, http.clone(), credential, ClientOptions::default()), http))
}
