//! Flags of what clusters share: token issuers, and identities of the managed flavour.

use super::prereqs::{Account, How};
use clap::{Args, ValueEnum};
use landing_zone::managed::Encoding;
use std::path::PathBuf;

/// A public issuer of service-account tokens on Azure
///
/// An RSA key pair in --output-dir, and a storage account with a public container that holds the discovery document and
/// the public keys. Run again, it makes what is missing; a published key is never withdrawn but by --retire-old.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        zaffre create oidc-issuer azure --name demooidc --resource-group-name demo-oidc --location westus2 --output-dir oidc\n  \
        zaffre create oidc-issuer azure --name demooidc --resource-group-name demo-oidc --location westus2 --output-dir oidc --rotate")]
pub struct OidcIssuerArgs {
    /// Name of the storage account and of its container: 3 to 24 lower-case letters and digits, unique in Azure
    #[arg(long, value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub account: Account,
    /// Group of the account; made if it does not exist
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: String,
    /// Region
    #[arg(long, default_value = "eastus", value_name = "REGION")]
    pub location: String,
    /// Directory of serviceaccount-signer.private (mode 0600), serviceaccount-signer.public and issuer-url
    #[arg(long, value_name = "DIR")]
    pub output_dir: PathBuf,
    /// A private key of yours (PEM, RSA) in place of a new one of 4096 bits
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Change over to a new key; the old one stays published, so that tokens it signed are still good
    #[arg(long, conflicts_with = "retire_old")]
    pub rotate: bool,
    /// Withdraw all published keys but the one that signs
    #[arg(long, conflicts_with = "key")]
    pub retire_old: bool,
    /// Take over an account that has the right name and was not made by this command
    #[arg(long)]
    pub adopt: bool,
    #[command(flatten)]
    pub how: How,
}

/// Take away a token issuer on Azure
///
/// Tokens of clusters that use it are not accepted any more. The key files stay.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zaffre destroy oidc-issuer azure --name demooidc")]
pub struct DestroyIssuerArgs {
    /// Name of the storage account
    #[arg(long, value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub account: Account,
    /// Accepted for scripts; what was made is found by its mark
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: Option<String>,
    #[command(flatten)]
    pub how: How,
}

/// Identities of the managed flavour (ARO HCP) on Azure
///
/// A key vault, an application with a certificate for each component of a control plane, three managed identities for
/// the nodes, and the two files that `create infra` and `create cluster` read. Run again, it makes what is missing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        zaffre create managed-identities azure --name demo --resource-group-name demo-shared --location westus2 \\\n    \
        --oidc-issuer-url https://oidc.example.com/demo \\\n    \
        --managed-identities-file cp.json --data-plane-identities-file dp.json\n  \
        zaffre create managed-identities azure ... --renew")]
pub struct ManagedArgs {
    /// Applications, identities and secrets are named after it
    #[arg(long, value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub account: Account,
    /// Group of vault and identities, shared by clusters; made if it does not exist
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: String,
    /// Region
    #[arg(long, default_value = "eastus", value_name = "REGION")]
    pub location: String,
    /// Name of the key vault, unique in Azure; by default --name
    #[arg(long, value_name = "NAME")]
    pub key_vault_name: Option<String>,
    /// Issuer of the clusters' service-account tokens, for the nodes' identities
    #[arg(long, value_name = "URL")]
    pub oidc_issuer_url: String,
    /// Write the control-plane identities here (JSON, mode 0600)
    #[arg(long, value_name = "FILE")]
    pub managed_identities_file: PathBuf,
    /// Write the data-plane identities here (JSON, mode 0600)
    #[arg(long, value_name = "FILE")]
    pub data_plane_identities_file: PathBuf,
    /// How the vault's secrets are written
    #[arg(long, value_enum, default_value_t = ObjectEncoding::Utf8, value_name = "ENCODING")]
    pub object_encoding: ObjectEncoding,
    /// How many days new certificates are good for
    #[arg(long, default_value_t = 365, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..=730))]
    pub validity_days: u16,
    /// Renew certificates that end within --renew-before; without it only those that have ended
    #[arg(long)]
    pub renew: bool,
    /// How many days before its end a certificate is renewed
    #[arg(long, default_value_t = 30, value_name = "DAYS", requires = "renew")]
    pub renew_before: u16,
    /// Take over resources that have the right names and were not made by this command
    #[arg(long)]
    pub adopt: bool,
    #[command(flatten)]
    pub how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectEncoding {
    #[value(name = "utf-8")]
    Utf8,
    Hex,
    Base64,
}

impl From<ObjectEncoding> for Encoding {
    fn from(e: ObjectEncoding) -> Encoding {
        match e {
            ObjectEncoding::Utf8 => Encoding::Utf8,
            ObjectEncoding::Hex => Encoding::Hex,
            ObjectEncoding::Base64 => Encoding::Base64,
        }
    }
}

/// Take away the identities of the managed flavour on Azure
///
/// Vault (purged, so that its name is free), applications and identities are found by their mark.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zaffre destroy managed-identities azure --name demo")]
pub struct DestroyManagedArgs {
    /// What applications and identities are named after
    #[arg(long, value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub account: Account,
    /// Accepted for scripts; what was made is found by its mark
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: Option<String>,
    #[command(flatten)]
    pub how: How,
}
