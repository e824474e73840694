//! The command line: names, flags, and help that teaches.

pub mod azure;
pub mod explain;
pub mod fixes;
pub mod names;
pub mod operators;
pub mod prereqs;
pub mod road;
pub mod shared;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// OpenShift hosted control planes on Azure, end to end, on one machine or in production.
///
/// Every outside system is reached through its real protocol, and each has an embedded default that speaks
/// it, so everything runs on a laptop with one command.
#[derive(Debug, Parser)]
#[command(
    name = "zaffre",
    version,
    propagate_version = true,
    after_help = "Start here:\n  \
        zaffre demo                                     see it work, nothing needed, nothing left behind\n  \
        zaffre serve kube --kubeconfig-out kc           a Kubernetes API server for kubectl\n  \
        KUBECONFIG=kc kubectl api-resources\n  \
        zaffre serve azure --env-out env                an Azure for az and the SDKs\n  \
        . ./env && zaffre azure journal                 what was asked of it\n  \
        zaffre doctor azure                             may this account make clusters?\n  \
        zaffre plan create iam azure --help             what would be made, before it is\n\n\
        Exit status:\n  \
        0  done, or nothing to do\n  \
        1  it failed; standard error says why, and what to do\n  \
        2  flags that cannot be followed; from `plan` and --dry-run: there is something to do\n\n\
        Each command explains itself: zaffre help serve kube"
)]
pub struct Cli {
    /// Say more: -v for information, -vv for debugging. Logs go to standard error.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, parsed once")]
pub enum Command {
    /// Install the operators of hosted clusters into a management cluster
    ///
    /// Definitions first, then the operator and its rights, by server-side apply: run again, it changes what differs.
    #[command(after_help = "Examples:\n  \
        zaffre install --wait-until-available\n  \
        zaffre install render > operator.yaml\n  \
        zaffre install --external-dns-provider azure --external-dns-credentials azure.json \\\n    \
        --external-dns-domain-filter example.com")]
    Install(road::InstallArgs),
    /// Take the operators away; clusters and, without --crds, their definitions stay
    ///
    /// Whatever flags they were installed with: webhooks first, then the operator, its rights and its namespace. What clusters
    /// that stay cannot do without is kept, and it is said so.
    #[command(after_help = "Example:\n  zaffre uninstall --timeout 10m")]
    Uninstall(road::UninstallArgs),
    /// Hosted clusters and node pools, one line each
    Status(road::StatusArgs),
    /// Change the release of a hosted cluster or of a node pool, after looking whether that can work
    #[command(subcommand)]
    Upgrade(road::Upgrade),
    /// Write all that is known of a cluster into a directory, for somebody else to read
    #[command(subcommand)]
    Dump(road::Dump),
    /// Make a cluster, or what it needs in Azure: identities, infrastructure
    #[command(subcommand)]
    Create(prereqs::Create),
    /// Take away what `create` made, and nothing else
    #[command(subcommand)]
    Destroy(prereqs::Destroy),
    /// Show what `create` or `destroy` would do; exit status 2 if there is anything
    #[command(subcommand)]
    Plan(prereqs::Change),
    /// Find what stands in the way, and the commands that clear it
    #[command(subcommand)]
    Doctor(prereqs::Doctor),
    /// Run a region on this machine: Azure, a management cluster, and the operators of hosted clusters
    ///
    /// Prints `ready https://HOST:PORT` (the management cluster) on standard output once it serves, then how to use it,
    /// and runs until Ctrl-C or SIGTERM. Azure is simulated; the API servers of hosted clusters, their etcd, tokens and
    /// certificates are real. Pods without a built-in program are simulated, and say so (annotation
    /// zaffre.io/simulated).
    #[command(after_help = "Examples:\n  \
        zaffre up --env-out env &\n  \
        export KUBECONFIG=kubeconfig && . ./env\n  \
        kubectl get hostedclusters -A -w\n  \
        zaffre explain hostedcluster demo -n clusters")]
    Up(UpArgs),
    /// Stop what `zaffre up` runs, in order, and wait until it has
    #[command(after_help = "Examples:\n  \
        zaffre down                           the one whose kubeconfig is here\n  \
        zaffre down --data-dir ./region")]
    Down(DownArgs),
    /// Tell why something is as it is: what is ready, what waits for what, since when, what to do
    #[command(subcommand)]
    Explain(explain::Explain),
    /// Run one part of the system in the foreground
    Serve(Serve),
    /// Ask a running Azure simulator what happened: journal, leaks, rights
    #[command(long_about = "Ask a running Azure simulator what happened: journal, leaks, rights\n\n\
        The simulator is the one whose environment is sourced (`. ./env`), or the one of --admin.")]
    Azure(azure::AzureArgs),
    /// Show the system at work on embedded defaults, then stop
    Demo(DemoArgs),
    /// Print a completion script for your shell
    #[command(after_help = "Example:\n  zaffre completion bash > /etc/bash_completion.d/zaffre")]
    Completion {
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write a manual page for every command
    #[command(after_help = "Example:\n  zaffre man --out man1 && man ./man1/zaffre-create-cluster-azure.1")]
    Man {
        /// Directory to write into; made if it is not there
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Print the version of this program, and of the operator in the cluster that kubectl would ask
    #[command(after_help = "Examples:\n  \
        zaffre version\n  \
        zaffre version --client-only -o json")]
    Version(road::VersionArgs),
}

#[derive(Debug, Args)]
pub struct Serve {
    #[command(subcommand)]
    pub what: ServeWhat,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, parsed once")]
pub enum ServeWhat {
    /// A Kubernetes API server
    ///
    /// Prints `ready https://HOST:PORT` on standard output once it serves, and runs until Ctrl-C or SIGTERM.
    /// Objects live in --data-dir and survive restarts and crashes; with --in-memory they end with the process.
    #[command(after_help = "Examples:\n  \
        zaffre serve kube --in-memory --listen 127.0.0.1:0 --kubeconfig-out kc\n  \
        zaffre serve kube --in-memory --nodes 3 --kubeconfig-out kc\n  \
        zaffre serve kube --data-dir ./cluster --kubeconfig-out kc --audit-log audit.jsonl")]
    Kube(KubeArgs),
    /// An Azure: Resource Manager, Entra ID and Graph, as real clients expect them
    ///
    /// Prints `ready https://localhost:PORT` on standard output once it serves, and runs until Ctrl-C or SIGTERM. It
    /// begins with one tenant, one subscription, an Owner service principal, the providers, and the public DNS zone
    /// example.zaffre.test in resource group zaffre-dns. It never calls Azure, and its proxy leads nowhere else.
    #[command(after_help = "Examples:\n  \
        zaffre serve azure --in-memory --env-out env\n  \
        . ./env && az login --service-principal -u $AZURE_CLIENT_ID -p $AZURE_CLIENT_SECRET -t $AZURE_TENANT_ID\n  \
        zaffre serve azure --data-dir ./azure --profile real --env-out env --creds-out creds.json\n  \
        zaffre serve azure --in-memory --rp Microsoft.RedHatOpenShift=http://127.0.0.1:8443")]
    Azure(azure::ServeArgs),
    /// The operator of HostedClusters, for a whole management cluster
    ///
    /// Makes of each HostedCluster a namespace with its HostedControlPlane, what Cluster API is told, and the operators
    /// that do the rest; reports in its status; and takes all of it away again when it is deleted. Of several, one works;
    /// the others stand by. Azure is asked before anything is made if the environment names an account (AZURE_CLIENT_ID
    /// and its company, or AZURE_CREDENTIALS_FILE).
    #[command(after_help = "Examples:\n  \
        zaffre serve hypershift-operator --kubeconfig kc --image quay.io/zaffre/zaffre:v1\n  \
        kubectl get hostedclusters -A -w\n  \
        curl -s http://127.0.0.1:9000/metrics | grep ^hypershift_")]
    HypershiftOperator(operators::HypershiftOperatorArgs),
    /// The operator of one hosted control plane, in its namespace of a management cluster
    ///
    /// Reads the HostedControlPlane and keeps everything it asks for: certificates, etcd, the API server and some forty
    /// components. It needs rights in its own namespace only. Of several, one works; the others stand by.
    #[command(after_help = "Examples:\n  \
        zaffre serve control-plane-operator --namespace clusters-demo --kubeconfig kc --image quay.io/zaffre/zaffre:v1\n  \
        kubectl -n clusters-demo get controlplanecomponents")]
    ControlPlaneOperator(operators::ControlPlaneOperatorArgs),
    /// The machines of hosted clusters: Cluster API's kinds, and virtual machines in Azure
    ///
    /// Keeps MachineDeployments, MachineSets, Machines, MachineHealthChecks and AzureMachines: makes, rolls, repairs and
    /// removes virtual machines with their interfaces and disks, as the AzureClusterIdentity of each cluster. It takes the
    /// place of upstream's controllers (--machines=builtin); not to be run beside them. Of several, one works; the others
    /// stand by.
    #[command(after_help = "Examples:\n  \
        zaffre serve machines --namespace clusters-demo --kubeconfig kc\n  \
        kubectl -n clusters-demo get machines,azuremachines -w")]
    Machines(operators::MachinesArgs),
    /// Ignition payloads for the machines of one hosted cluster
    ///
    /// Machines that boot show a token and are given everything that makes them nodes. Tokens lie in Secrets of the
    /// control plane's namespace and are renewed here; how making a payload went is written to the same Secrets.
    /// Payloads made here are complete for simulated machines; RHCOS needs more, made by --payload-command.
    #[command(after_help = "Examples:\n  \
        zaffre serve ignition-server --namespace clusters-demo --kubeconfig kc --cert-file tls.crt --key-file tls.key\n  \
        curl --cacert ca.crt -H \"Authorization: Bearer $(base64 -w0 token)\" https://ignition-server:9090/ignition")]
    IgnitionServer(ignition::Args),
    /// The config operator of one hosted cluster: between its control plane and the cluster itself
    ///
    /// Keeps in the guest what the HostedCluster decides (configuration, authorities, pull secrets, credentials, agents on
    /// nodes, policies that protect all this), and reports the guest's version and connections in the status of the
    /// HostedControlPlane. When the cluster is deleted, it removes what the guest made in Azure.
    #[command(
        visible_alias = "config-operator",
        after_help = "Examples:\n  \
        zaffre serve hosted-cluster-config-operator --namespace clusters-demo --hosted-control-plane demo \\\n    \
        --kubeconfig management --target-kubeconfig guest\n  \
        kubectl -n clusters-demo get hostedcontrolplane demo -o yaml     conditions ClusterVersion… and ConfigOperator…"
    )]
    HostedClusterConfigOperator(guest_config::Args),
    /// Note in a guest, once a minute, that pods there reach its API server
    ///
    /// Runs in the guest; the config operator reads the note. It needs the service account of its pod.
    KasConnectionChecker(guest_config::checker::Args),
    /// Keep a token of a guest's service account fresh in a file
    ///
    /// The sidecar that gives control plane components their Azure identity: the token is what Entra ID exchanges. The
    /// account is made if it is not there; the token is renewed at 80 % of its life at the latest, and soon after any
    /// failure. Runs until Ctrl-C or SIGTERM, or once with --oneshot.
    #[command(after_help = "Examples:\n  \
        zaffre serve token-minter --kubeconfig kc --service-account-namespace kube-system \\\n    \
        --service-account-name azure-cloud-provider --token-file ./token --oneshot\n  \
        cut -d. -f2 token | tr _- /+ | base64 -d 2> /dev/null     what Entra ID will see")]
    TokenMinter(sidecars::minter::Args),
    /// Wait until a guest's API answers and serves what is needed, then end
    ///
    /// The initial container of components that would otherwise start in vain. What is missing is said, once each.
    #[command(after_help = "Examples:\n  \
        zaffre serve availability-prober --target https://127.0.0.1:6443/readyz\n  \
        zaffre serve availability-prober --target https://127.0.0.1:6443/readyz --kubeconfig kc \\\n    \
        --required-api=operator.openshift.io,v1,Storage")]
    AvailabilityProber(sidecars::prober::Args),
    /// Puts a snapshot of etcd into a container of blobs, and ends
    ///
    /// The second half of the Job that an HCPEtcdBackup makes; prints where the snapshot is. Who it is to Azure comes from
    /// the environment, as az and the SDKs read it.
    #[command(after_help = "Example:\n  \
        zaffre serve etcd-backup --file snapshot.db --storage-account backups --container etcd --blob demo/1.db")]
    EtcdBackup(control_plane::etcd::upload::UploadArgs),
}

#[derive(Debug, Args)]
pub struct KubeArgs {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, default_value = "127.0.0.1:6443", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Keep objects in this directory (created if missing); one server at a time
    #[arg(long, value_name = "DIR", default_value = "zaffre-data", conflicts_with = "in_memory")]
    pub data_dir: PathBuf,
    /// Keep objects in memory only
    #[arg(long)]
    pub in_memory: bool,
    /// Write an administrator's kubeconfig here (mode 0600) before serving
    #[arg(long, value_name = "FILE")]
    pub kubeconfig_out: Option<PathBuf>,
    /// Serve a further cluster of this name, with its own keys, users and objects (repeatable)
    ///
    /// It is reached below /clusters/NAME, and by TLS server name as NAME.clusters.zaffre.internal. With
    /// --kubeconfig-out FILE its administrator's kubeconfig is written to FILE.NAME.
    #[arg(long = "cluster", value_name = "NAME")]
    pub clusters: Vec<String>,
    /// Give every cluster this many nodes, and run what makes workloads live
    ///
    /// Pods on them are simulated, and say so (annotation zaffre.io/simulated), unless their image is one of the
    /// programs built into zaffre: those really run.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub nodes: usize,
    /// Which controllers to run
    #[arg(long, value_enum, default_value_t = Controllers::Auto)]
    pub controllers: Controllers,
    /// Append one audit event (JSON) per request to this file
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// Trust further token issuers: an AuthenticationConfiguration (apiserver.config.k8s.io) file
    #[arg(long, value_name = "FILE")]
    pub authentication_config: Option<PathBuf>,
    /// Issuer URL of service-account tokens
    #[arg(long, value_name = "URL", default_value = "https://kubernetes.default.svc.cluster.local")]
    pub service_account_issuer: String,
    /// Further DNS names for the serving certificate (repeatable)
    #[arg(long = "tls-name", value_name = "NAME")]
    pub tls_names: Vec<String>,
}

/// Which controllers run beside the API server. They rest while a real kube-controller-manager or kube-scheduler
/// holds its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Controllers {
    /// All with --nodes, otherwise those of the system
    Auto,
    /// Workloads, scheduling, volumes and those of the system
    All,
    /// What belongs to the API: namespaces, garbage collection, quotas, certificates
    System,
    /// None: the bare API server
    None,
}

#[derive(Debug, Args)]
pub struct UpArgs {
    /// Keep everything in this directory; without it the world ends with the process
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address of the management cluster's API; port 0 for any free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// Write the management cluster's kubeconfig here
    #[arg(long, value_name = "FILE", default_value = "kubeconfig")]
    pub kubeconfig_out: PathBuf,
    /// Sort clusters by their number of nodes
    #[arg(long)]
    pub enable_size_tagging: bool,
    /// Let public clusters with managed identities share a router
    #[arg(long)]
    pub shared_ingress: bool,
    /// Write the environment for az, the SDKs and zaffre here, to be sourced
    #[arg(long, value_name = "FILE")]
    pub env_out: Option<PathBuf>,
    /// Write the Owner's credentials here, for --azure-creds
    #[arg(long, value_name = "FILE")]
    pub creds_out: Option<PathBuf>,
    /// How long things take that take time in a real region
    #[arg(long, value_enum, default_value_t = Pace::Instant)]
    pub profile: Pace,
    /// Run this many management clusters on one Azure; the kubeconfig has a context for each
    ///
    /// The first is `main`, the others `management-2` and so on, each with operators of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub management_clusters: u16,
    /// The same seed gives the same tenant, subscription and clients
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
    /// Print the ready line only
    #[arg(short, long)]
    pub quiet: bool,
    /// How to print where it serves, once it does
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// Nothing takes longer than it has to
    Instant,
    /// Azure takes a little, pods nothing
    Fast,
    /// Azure and pods take about as long as real ones
    Real,
    /// As real, and what can go wrong does
    BadDay,
}

#[derive(Debug, Args)]
pub struct DownArgs {
    /// The directory that `zaffre up` was given
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Without --data-dir: the kubeconfig that `zaffre up` wrote
    #[arg(long, value_name = "FILE", default_value = "kubeconfig", conflicts_with = "data_dir")]
    pub kubeconfig_out: PathBuf,
    /// How long it may take to stop
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = self_managed::flags::duration)]
    pub timeout: String,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
    Yaml,
}

#[allow(clippy::unnecessary_wraps, reason = "all commands have one shape")]
pub fn completion(shell: clap_complete::Shell) -> anyhow::Result<()> {
    clap_complete::generate(shell, &mut Cli::command(), "zaffre", &mut std::io::stdout());
    Ok(())
}

/// Pages are named as the commands are, with dashes.
pub fn man(out: &std::path::Path) -> anyhow::Result<()> {
    let written = std::fs::create_dir_all(out).and_then(|()| clap_mangen::generate_to(Cli::command(), out));
    anyhow::Context::with_context(written, || format!("cannot write {} (--out)", out.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Command lines of our own programs in a document.
    fn ours(document: &Value, found: &mut Vec<Vec<String>>) {
        let words = |key: &str| -> Vec<String> {
            let list = document[key].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let all = [words("command"), words("args")].concat();
        if all.first().is_some_and(|w| w == "/usr/bin/zaffre") {
            found.push(all);
        }
        match document {
            Value::Object(map) => map.values().for_each(|v| ours(v, found)),
            Value::Array(list) => list.iter().for_each(|v| ours(v, found)),
            _ => {}
        }
    }

    fn files(dir: &std::path::Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
            match entry.extension() {
                _ if entry.is_dir() => files(&entry, found),
                Some(e) if e == "yaml" => found.push(entry),
                _ => {}
            }
        }
    }

    /// What is rendered for pods, this binary takes: flag by flag, as golden files of the other crates have it.
    #[test]
    fn rendered_command_lines_are_understood() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (mut all, mut lines) = (Vec::new(), Vec::new());
        for one in ["control-plane", "hypershift", "guest-config", "self-managed"]
            .map(|c| format!("{c}/tests/golden"))
        {
            files(&crates.join(one), &mut all);
        }
        for file in all {
            let text = std::fs::read_to_string(&file).unwrap();
            for document in text.split("\n---\n").filter(|d| !d.is_empty()) {
                ours(&serde_saphyr::from_str(document).unwrap(), &mut lines);
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for line in lines {
            // As a kubelet would.
            let line: Vec<String> = line.iter().map(|w| w.replace("$(", "").replace(')', "")).collect();
            if let Err(e) = Cli::try_parse_from(&line) {
                panic!("{line:?}\n{e}");
            }
            seen.insert(line[2].clone());
        }
        let expected = [
            "availability-prober",
            "control-plane-operator",
            "hosted-cluster-config-operator",
            "hypershift-operator",
            "ignition-server",
            "kas-connection-checker",
            "machines",
            "token-minter",
        ];
        assert_eq!(seen, expected.map(str::to_owned).into());
    }
}
