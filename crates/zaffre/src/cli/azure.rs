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
    /// What they take in Azure, as measured
    Real,
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
