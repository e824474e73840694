//! What control planes call us with is what we understand.

use clap::{Command, FromArgMatches, Parser};
use guest_config::{Args, checker};
use serde_json::Value;

/// The words of a component's main container, with something in place of what depends on the cluster.
fn called(component: &str) -> (Vec<String>, Value) {
    let all = control_plane::table::all();
    let text = all.iter().find(|c| c.name == component).unwrap().workload;
    let mut text = text.to_owned();
    for (word, value) in [("konnectivity.port", "443"), ("oauth.port", "443"), ("registry.overrides", "")] {
        text = text.replace(&format!("{{{{{word}}}}}"), value);
    }
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    let container = document["spec"]["template"]["spec"]["containers"][0].clone();
    let words = |field: &str| container[field].as_array().cloned().unwrap_or_default();
    let all = words("command").into_iter().chain(words("args"));
    (all.map(|w| w.as_str().unwrap().to_owned()).collect(), container)
}

fn parse<T: clap::Args + FromArgMatches>(words: &[String]) -> T {
    let command = T::augment_args(Command::new("x"));
    let matches = command.try_get_matches_from(words).unwrap_or_else(|e| panic!("{e}"));
    T::from_arg_matches(&matches).unwrap()
}

#[test]
fn the_config_operator() {
    let (words, container) = called("hosted-cluster-config-operator");
    assert_eq!(words[..3], ["/usr/bin/zaffre", "serve", "hosted-cluster-config-operator"]);
    let args: Args = parse(&words[2..]);
    assert_eq!(args.target_kubeconfig.to_str(), Some("/etc/kubernetes/kubeconfig/kubeconfig"));
    assert_eq!((args.konnectivity_port, args.platform_type.as_str()), (443, "Azure"));
    // The images it is told of are those it looks for.
    let env = container["env"].as_array().unwrap();
    let value = |name: &str| env.iter().find(|e| e["name"] == name)?["value"].as_str().map(str::to_owned);
    let told = args.told(value);
    for (_, key) in guest_config::args::IMAGES {
        assert_eq!(told.images[key], format!("{{{{image:{key}}}}}"));
    }
    assert_eq!((told.version.as_str(), told.image.as_str()), ("{{release.version}}", "{{release.image}}"));
    let port = |probe: &str| container[probe]["httpGet"]["port"].as_u64().unwrap();
    assert_eq!([port("livenessProbe"), port("readinessProbe")], [u64::from(args.health_address.port()); 2]);
    assert_eq!(container["ports"][0]["containerPort"], args.metrics_address.port());
}

#[test]
fn the_version_operator() {
    let (words, _) = called("cluster-version-operator");
    let args = cluster_version::Args::try_parse_from(&words).unwrap();
    assert_eq!(
        (args.release_image.as_str(), args.hypershift, args.enable_auto_update),
        ("$(RELEASE_IMAGE)", true, false)
    );
}

#[test]
fn the_connection_checker() {
    let words = ["x", "--namespace=kube-system", "--config-map=kas-connection-checker"].map(str::to_owned);
    let args: checker::Args = parse(&words);
    assert_eq!(
        (args.namespace.as_str(), args.config_map.as_str()),
        (checker::NAMESPACE, checker::CONFIG_MAP)
    );
}
