//! Private clusters: the way in from the guest's network is made in Azure, told of, and removed to the last subnet.

use crate::kit::{Kit, condition, is_true};
use crate::remains::Remains;
use apis::conditions::private_link;
use arm::ResourceId;
use azure::ops::{
    ArmType, LoadBalancers, PrivateDnsA, PrivateDnsLinks, PrivateDnsZones, PrivateEndpoints,
    PrivateLinkServices, VirtualNetworks,
};
use hypershift::kinds;
use serde_json::Value;
use world::Flavour;
use world::landing::DOMAIN;
use world::sample::Sample;

/// Names of the subnets of the management cluster's network.
async fn subnets(kit: &Kit) -> Vec<String> {
    let cloud = kit.world.cloud();
    let network = cloud.client.arm::<VirtualNetworks>().get(&cloud.intranet.network).await.unwrap();
    let all = network.properties.unwrap().subnets.unwrap();
    all.into_iter().filter_map(|s| s.name).collect()
}

/// Everything of a private link, as Azure has it and as the object tells it.
async fn looks_right(kit: &Kit, sample: &Sample) {
    let (cloud, azure) = (kit.world.cloud(), &kit.world.cloud().client);
    let (name, main) = (&sample.name, &kit.landing.layout.main);
    let link = kit.api(&kinds::LINK, &sample.plane()).get("private-router").await.unwrap();
    let (spec, status) = (&link.data["spec"], &link.data["status"]);
    let balancers = azure.arm::<LoadBalancers>().list_all(&cloud.intranet.group).await.unwrap();
    assert_eq!(balancers.len(), 1);
    assert_eq!(status["internalLoadBalancerID"], balancers[0].id.as_ref().unwrap().as_str());

    let service = azure.arm::<PrivateLinkServices>().list_all(&cloud.intranet.group).await.unwrap();
    let [service] = &service[..] else { panic!("one service: {service:?}") };
    let hc = kit.api(&kinds::CLUSTER, world::sample::NAMESPACE).get(name).await.unwrap();
    let id = hc.data["spec"]["clusterID"].as_str().unwrap();
    assert_eq!(service.name.as_deref(), Some(format!("pls-{id}").as_str()));
    let p = service.properties.as_ref().unwrap();
    assert_eq!(status["privateLinkServiceAlias"], p.alias.as_deref().unwrap());
    let approved = p.auto_approval.as_ref().and_then(|a| a.subscriptions.clone());
    assert_eq!(approved, Some(vec![kit.landing.subscription.clone()]));
    assert!(subnets(kit).await.contains(&format!("{name}-x7k2p-pls-nat")));

    let endpoint = PrivateEndpoints::ROW.id(main, "private-router-pe").unwrap();
    azure.arm::<PrivateEndpoints>().get(&endpoint).await.unwrap();
    assert_eq!(status["privateEndpointID"], endpoint.as_str());
    let ip = status["privateEndpointIP"].as_str().unwrap();
    assert_ne!(ip, spec["loadBalancerIP"].as_str().unwrap(), "an address of the guest's network");
    let local = format!("{name}.hypershift.local");
    for (zone, link, records) in [
        (local.clone(), "private-router-vnet-link", ["api".to_owned(), "*.apps".to_owned()]),
        (
            DOMAIN.to_owned(),
            "private-router-basedomain-vnet-link",
            [format!("api-{name}"), format!("oauth-{name}")],
        ),
    ] {
        let zone = PrivateDnsZones::ROW.id(main, &zone).unwrap();
        let link = PrivateDnsLinks::ROW.id(&zone, link).unwrap();
        let link = azure.arm::<PrivateDnsLinks>().get(&link).await.unwrap().properties.unwrap();
        assert_eq!(link.virtual_network.unwrap().id, Some(kit.landing.layout.vnet.clone()));
        for record in records {
            let record = PrivateDnsA::ROW.id(&zone, &record).unwrap();
            let record = azure.arm::<PrivateDnsA>().get(&record).await.unwrap().properties.unwrap();
            assert_eq!((record.ttl, record.a.unwrap()[0].address.as_deref()), (Some(300), Some(ip)));
        }
    }
    assert_eq!(status["dnsZoneName"], local);
}

fn open(status: &Value) -> bool {
    private_link::ALL.iter().all(|kind| is_true(status, kind))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_way_in_is_made_and_removed() {
    let kit = Kit::start(Flavour::Workload).await;
    let before = Remains::of(&kit).await;
    let subnets_before = subnets(&kit).await;
    let both = kit.sample("both").private("PublicAndPrivate");
    both.create(&kit.world).await.unwrap();
    kit.available("both").await;
    let cluster = kit.until("both", "the private way is open", open).await;
    assert_eq!(condition(&cluster.data["status"], private_link::AVAILABLE)["reason"], "AzureSuccess");
    looks_right(&kit, &both).await;
    kit.delete("both").await;
    kit.gone("both").await;
    Remains::of(&kit).await.assert_clean_since(&before, &["both"]);
    assert_eq!(subnets(&kit).await, subnets_before);

    // No other way in: the API is published by name alone.
    let only = kit.sample("only").published_by_route().private("Private");
    only.create(&kit.world).await.unwrap();
    kit.available("only").await;
    kit.until("only", "the private way is open", open).await;
    looks_right(&kit, &only).await;
    kit.delete("only").await;
    kit.gone("only").await;
    Remains::of(&kit).await.assert_clean_since(&before, &["both", "only"]);
    assert_eq!(subnets(&kit).await, subnets_before);
    let left = ResourceId::parse(kit.landing.layout.main.as_str()).unwrap();
    assert!(kit.world.cloud().client.arm::<PrivateEndpoints>().list_all(&left).await.unwrap().is_empty());
    kit.world.stop().await;
}
