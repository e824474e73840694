//! `zaffre serve azure` and `zaffre azure`: flags of the Azure simulator and of its reports.

use super::Format;
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use url::Url;

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address of Resource Manager, Entra ID and Graph (TLS); port 0 picks a free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Address of the proxy that leads clients of public Azure here, and nowhere else
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub proxy_listen: SocketAddr,
    /// Address of the admin API (plain HTTP): journal, leaks, clock
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub admin_listen: SocketAddr,
    /// Address where virtual machines ask for metadata and tokens (plain HTTP)
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub imds_listen: SocketAddr,
    /// Keep everything in this directory (created if missing); one simulator at a time
    #[arg(long, value_name = "DIR", default_value = "zaffre-azure", conflicts_with = "in_memory")]
    pub data_dir: PathBuf,
    /// Keep everything in memory only
    #[arg(long)]
    pub in_memory: bool,
    /// How long operations take
    #[arg(long, value_enum, default_value_t = Pace::Fast)]
    pub profile: Pace,
    /// How many times as fast as the machine's the simulator's clock runs; 0 stands still until it is moved
    ///
    /// Left out, a data directory's clock runs on as it did, and a new one as the machine's.
    #[arg(long, value_name = "N")]
    pub clock_scale: Option<f64>,
    /// Ids, secrets and addresses follow from this number: the same one gives the same world
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Forward a provider's resources to a resource provider of your own (repeatable)
    ///
    /// It is called as Resource Manager calls it in Azure: after authentication and authorization, with the headers
    /// that say who, from where, and on whose behalf.
    #[arg(long = "rp", value_name = "NAMESPACE=URL", value_parser = provider)]
    pub providers: Vec<Provider>,
    /// Trust the issuers of federated credentials that this authority (PEM) vouches for (repeatable)
    ///
    /// The system's roots are trusted anyway, so issuers on the public web work.
    #[arg(long = "issuer-ca", value_name = "FILE")]
    pub issuer_cas: Vec<PathBuf>,
    /// Write `export` lines here (mode 0600): all that az and the SDKs need
    ///
    /// Beside it, FILE.ca.pem holds the authorities to trust, and FILE.az/ will hold az's logins, apart from your own.
    #[arg(long, value_name = "FILE")]
    pub env_out: Option<PathBuf>,
    /// Write the owner's credentials here (mode 0600), as installers read them
    #[arg(long, value_name = "FILE")]
    pub creds_out: Option<PathBuf>,
}

/// How fast the simulated Azure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// Operations are over at the next look
    Instant,
    /// A fiftieth of what they take in Azure
    Fast,
    /// What they take in Azure, as measured; rights and principals arrive late, as they do there
    Real,
    /// As fast as `fast`, with faults, budgets and lags: see `zaffre azure faults`
    BadDay,
}

/// A resource provider outside the simulator.
#[derive(Clone, Debug)]
pub struct Provider {
    pub namespace: String,
    pub url: Url,
}

fn provider(text: &str) -> Result<Provider, String> {
    const EXAMPLE: &str = "for example Microsoft.RedHatOpenShift=http://127.0.0.1:8443";
    let (namespace, url) =
        text.split_once('=').ok_or_else(|| format!("there is no '='; write NAMESPACE=URL, {EXAMPLE}"))?;
    let label = |l: &str| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric());
    if namespace.len() > 128 || !namespace.contains('.') || !namespace.split('.').all(label) {
        return Err(format!("'{namespace}' is not the namespace of a provider; {EXAMPLE}"));
    }
    let url = Url::parse(url).map_err(|e| format!("'{url}' is not a URL: {e}; {EXAMPLE}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || url.query().is_some() {
        return Err(format!("'{url}' must be http://HOST or https://HOST, without a query; {EXAMPLE}"));
    }
    Ok(Provider { namespace: namespace.to_owned(), url })
}

#[derive(Debug, Args)]
pub struct AzureArgs {
    /// Where the simulator's admin API is; the file of --env-out says it
    #[arg(long, env = "ZAFFRE_AZURE_ADMIN_URL", hide_env_values = true, value_name = "URL", global = true)]
    pub admin: Option<Url>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Text, global = true)]
    pub output: Format,
    #[command(subcommand)]
    pub what: AzureWhat,
}

#[derive(Debug, Subcommand)]
pub enum AzureWhat {
    /// What was asked of Resource Manager: by whom, what it needed, how it ended
    #[command(after_help = "Examples:\n  \
        zaffre azure journal --limit 20\n  \
        zaffre azure journal --follow --principal my-operator\n  \
        zaffre azure journal -o json | jq '.value[] | select(.status >= 400)'")]
    Journal(JournalArgs),
    /// What exists beyond what the simulator began with, and who made it
    #[command(after_help = "Example, at the end of a test:\n  zaffre azure leaks --fail-on-leaks")]
    Leaks {
        /// Exit with status 1 if there is anything
        #[arg(long)]
        fail_on_leaks: bool,
    },
    /// Which rights each principal used, and which it was given and never used
    LeastPrivilege,
    /// What goes wrong, on purpose: rules that make requests fail
    #[command(subcommand)]
    Faults(FaultsWhat),
    /// The simulator's clock: how it runs, and moving it ahead
    Clock {
        #[command(subcommand)]
        what: Option<ClockWhat>,
    },
    /// A live view: requests, throttles, operations under way, faults that fired
    #[command(after_help = "In a script or a test:\n  zaffre azure top --once -o json")]
    Top {
        /// Print once and end; without a terminal it always does
        #[arg(long)]
        once: bool,
        /// Seconds between two looks
        #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: u64,
    },
}

#[derive(Debug, Args)]
pub struct JournalArgs {
    /// Go on printing as things happen, until Ctrl-C; with -o json one line each
    #[arg(short, long)]
    pub follow: bool,
    /// Only the calls of this principal: its name, object id or client id
    #[arg(long, value_name = "WHO")]
    pub principal: Option<String>,
    /// Only the newest N calls; 0 for all that are kept
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u32,
}

#[derive(Debug, Subcommand)]
pub enum FaultsWhat {
    /// Make requests go wrong from now on
    #[command(after_help = "Texts are patterns: `*` stands for anything.\n\nExamples:\n  \
        zaffre azure faults add --method PUT --type 'Microsoft.Network/*' --nth 1 --each id --drop after\n  \
        zaffre azure faults add --host arm --probability 0.1 --status 503 --html\n  \
        zaffre azure faults add --type Microsoft.Compute/virtualMachines --zone 1 --fail-late ZonalAllocationFailed\n  \
        zaffre azure faults add --principal my-operator --every 20 --expire-token")]
    Add(Box<FaultArgs>),
    /// The rules in force, with how often each met a request and fired
    List,
    /// Take a rule away
    Remove { name: String },
    /// Take all rules away
    Clear,
    /// Add the rules of a preset or of a JSON file
    #[command(
        after_help = "Examples:\n  zaffre azure faults load bad-day\n  zaffre azure faults load ./my-faults.json"
    )]
    Load {
        /// The name of a preset (`zaffre azure faults presets`), or the path of a file
        #[arg(value_name = "PRESET|FILE")]
        what: String,
    },
    /// Troubles with names: what was seen in real Azure, and whole bad days
    Presets,
}

#[derive(Debug, Args)]
pub struct FaultArgs {
    /// What to call the rule; made up if not given
    #[arg(long)]
    pub name: Option<String>,
    /// Requests to this service (arm, login, graph, vault, blob, registry, imds, msi…) or host
    #[arg(long, help_heading = "Which requests")]
    pub host: Option<String>,
    /// With this method
    #[arg(long, help_heading = "Which requests")]
    pub method: Option<String>,
    /// About this type
    #[arg(long = "type", value_name = "TYPE", help_heading = "Which requests")]
    pub kind: Option<String>,
    /// With this path
    #[arg(long, value_name = "PATTERN", help_heading = "Which requests")]
    pub id: Option<String>,
    /// Of this principal: name, object id or client id
    #[arg(long, value_name = "WHO", help_heading = "Which requests")]
    pub principal: Option<String>,
    /// That need this right
    #[arg(long, help_heading = "Which requests")]
    pub action: Option<String>,
    /// That want something in this zone
    #[arg(long, help_heading = "Which requests")]
    pub zone: Option<String>,
    /// Only the Nth of them
    #[arg(long, value_name = "N", help_heading = "Which requests", conflicts_with = "every")]
    pub nth: Option<u64>,
    /// Only every Nth of them
    #[arg(long, value_name = "N", help_heading = "Which requests")]
    pub every: Option<u64>,
    /// Only this part of them, up to 1; drawn by the seed
    #[arg(long, value_name = "P", help_heading = "Which requests")]
    pub probability: Option<f64>,
    /// At most so often
    #[arg(long, value_name = "N", help_heading = "Which requests")]
    pub times: Option<u64>,
    /// What --nth, --every and --times count: all requests of the rule, or those of each method and path
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Counted::Rule, help_heading = "Which requests")]
    pub each: Counted,
    #[command(flatten)]
    pub then: FaultThen,
    /// The error's code, with --status
    #[arg(long, requires = "status", help_heading = "What happens")]
    pub code: Option<String>,
    /// The error's message, with --status, --fail-late or --partial
    #[arg(long, help_heading = "What happens")]
    pub message: Option<String>,
    /// A page in place of JSON, with --status
    #[arg(long, requires = "status", help_heading = "What happens")]
    pub html: bool,
    /// Seconds to wait, with --status
    #[arg(long, value_name = "SECONDS", requires = "status", help_heading = "What happens")]
    pub retry_after: Option<u32>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct FaultThen {
    /// Answer with this error
    #[arg(long, value_name = "400-599", help_heading = "What happens")]
    pub status: Option<u16>,
    /// Answer 429, to be asked again after so many seconds
    #[arg(long, value_name = "SECONDS", help_heading = "What happens")]
    pub throttle: Option<u32>,
    /// Break the connection, before or after it is done
    #[arg(long, value_enum, value_name = "WHEN", help_heading = "What happens")]
    pub drop: Option<Moment>,
    /// Wait so many milliseconds first
    #[arg(long, value_name = "MS", help_heading = "What happens")]
    pub delay: Option<u64>,
    /// Accept, and fail with this code at the end of the operation
    #[arg(long, value_name = "CODE", help_heading = "What happens")]
    pub fail_late: Option<String>,
    /// Do it, in part, and answer with this code
    #[arg(long, value_name = "CODE", help_heading = "What happens")]
    pub partial: Option<String>,
    /// Show the state so many writes ago
    #[arg(long, value_name = "WRITES", help_heading = "What happens")]
    pub stale: Option<u64>,
    /// Refuse the token from now on
    #[arg(long, help_heading = "What happens")]
    pub expire_token: bool,
    /// Sign with a new key from now on, and refuse what the old one signed
    #[arg(long, help_heading = "What happens")]
    pub rotate_keys: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Counted {
    Rule,
    Id,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Moment {
    Before,
    After,
}

#[derive(Debug, Subcommand)]
pub enum ClockWhat {
    /// What it shows, how it runs, and when the next thing happens by itself
    Show,
    /// Move it ahead; tokens that exist lose the same time
    Advance {
        #[arg(value_name = "SECONDS")]
        seconds: u32,
    },
    /// Run so many times as fast as the machine's; 1 is its pace, 0 stands still
    Scale {
        #[arg(value_name = "N")]
        scale: f64,
    },
    /// Move it to the next thing that happens by itself
    Next,
}
