//! What goes wrong, and what to do about it.

use arm::ResourceId;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{what} is '{value}': use up to 54 lower-case letters, digits and dashes, beginning and ending with a letter or digit"
    )]
    Name { what: &'static str, value: String },
    #[error("{flag} is '{value}', which is not the id of a {kind}: it looks like {example}")]
    Id { flag: &'static str, value: String, kind: &'static str, example: &'static str },
    #[error("--vnet-id is given without --subnet-id: name the subnet of that network for the nodes, too")]
    SubnetMissing,
    #[error("--subnet-id {subnet} is not in --vnet-id {vnet}: give a subnet of that network")]
    SubnetElsewhere { subnet: ResourceId, vnet: ResourceId },
    #[error("{flag} needs {needs}: give both or neither")]
    Needs { flag: &'static str, needs: &'static str },
    #[error("--base-domain is '{0}', which is not a DNS name")]
    Domain(String),
    #[error("--oidc-issuer-url is '{0}': use an https:// URL without query")]
    Issuer(String),
    #[error("--resource-group-tags: {0}")]
    Tags(#[source] arm::TagsError),
    #[error(transparent)]
    ArmId(#[from] arm::IdError),
    #[error(transparent)]
    Plan(#[from] azure::plan::PlanError),
    #[error("cannot read {what}")]
    Read { what: String, source: Box<azure::Error> },
    #[error("cannot look at {} of the resources", .0.len())]
    Look(Vec<(ResourceId, azure::Error)>),
    #[error(
        "there is no public DNS zone '{domain}' in subscription {subscription}: make it (az network dns zone create -g GROUP -n {domain}) and delegate it, or give another --base-domain"
    )]
    NoZone { domain: String, subscription: String },
    #[error(
        "resource group {0} does not exist: make it (az group create) or leave --resource-group-name away"
    )]
    NoGroup(String),
    #[error("{flag} {id} does not exist: create it first, or leave the flag away to have one made")]
    NotThere { flag: &'static str, id: ResourceId },
    #[error(
        "no service principal has client id {0}, which the identities file names: is the file of this tenant?"
    )]
    NoPrincipal(String),
    #[error(
        "there is no role '{0}' in the subscription: make it (az role definition create), or leave --assign-custom-hcp-roles away (Contributor is then given)"
    )]
    NoRole(&'static str),
    #[error(
        "{} exist(s) already and do(es) not carry the mark of this cluster (tag {}): choose another --infra-id, delete it, or take it over with --adopt",
        list(.0), crate::names::TAG_INFRA
    )]
    Clash(Vec<ResourceId>),
    #[error("{} right(s) are missing; nothing was changed", .0.len())]
    Rights(Vec<crate::rights::Missing>),
    #[error("the result lacks {0}: run the command again")]
    Incomplete(String),
    #[error("no token for Azure: give --azure-creds FILE, or az login")]
    Token(#[source] Box<azure::CredentialError>),
    #[error("the token does not say whose it is (no oid and tid): use another credential")]
    Nobody,
    #[error(
        "--name is '{0}': use 3 to 24 lower-case letters and digits, as accounts and their containers have them"
    )]
    AccountName(String),
    #[error(
        "--key-vault-name is '{0}': use 3 to 24 letters, digits and single dashes, beginning with a letter"
    )]
    VaultName(String),
    #[error(
        "a vault named {0} was deleted by somebody else and holds the name: give another --key-vault-name, or az keyvault purge -n {0}"
    )]
    VaultGone(String),
    #[error("cannot use the key in {}", path.display())]
    Key { path: std::path::PathBuf, source: crate::issuer::KeyError },
    #[error("cannot make a key")]
    NewKey(#[source] crate::issuer::KeyError),
    #[error("cannot read or write {}", path.display())]
    KeyFile { path: std::path::PathBuf, source: std::io::Error },
    #[error(
        "--output-dir holds another key (id {0}) than --key: give another directory, or --rotate to change over to it"
    )]
    OtherKeyHere(String),
    #[error(
        "the issuer publishes other keys ({}): give the private key with --key or the --output-dir that holds it, or destroy the issuer; no key is withdrawn by this command",
        .0.join(", ")
    )]
    OtherKeysPublished(Vec<String>),
    #[error("--output-dir holds no key: run the command without --rotate and --retire-old first")]
    NoKeyHere,
    #[error("--key is the key that signs already (id {0}): give another, or leave it away to have one made")]
    SameKey(String),
    #[error("a rotation was begun and not ended: run the command with --rotate first")]
    RotationUnfinished,
    #[error(
        "the account may not make applications in the directory: give it Application.ReadWrite.OwnedBy of Microsoft Graph ({}) and run the command again; what was made before stays and is used",
        consent("CLIENT_ID")
    )]
    Directory(#[source] Box<azure::Error>),
    #[error("cannot {what}")]
    Data { what: String, source: Box<azure::Error> },
    #[error("cannot make a certificate for {0}")]
    Certificate(String, #[source] crate::managed::CertificateError),
    #[error("resource group {0} is still being deleted after {1} s: run the command again later")]
    Deleting(ResourceId, u64),
}

impl Error {
    /// Whether the flags cannot be followed, whatever is there: they end as those that the parser refuses.
    pub fn is_of_flags(&self) -> bool {
        matches!(
            self,
            Error::Name { .. }
                | Error::Id { .. }
                | Error::SubnetMissing
                | Error::SubnetElsewhere { .. }
                | Error::Needs { .. }
                | Error::Domain(_)
                | Error::Issuer(_)
                | Error::Tags(_)
                | Error::AccountName(_)
                | Error::VaultName(_)
        )
    }
}

/// How an application is given Application.ReadWrite.OwnedBy of Microsoft Graph.
pub(crate) fn consent(client_id: &str) -> String {
    format!(
        "az ad app permission add --api 00000003-0000-0000-c000-000000000000 --api-permissions 18a4783c-866b-4cc7-a460-3d5e5662c884=Role --id {client_id}, then az ad app permission admin-consent --id {client_id}"
    )
}

fn list(ids: &[ResourceId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Plain words for a failure: why, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub cause: &'static str,
    pub next: String,
}

/// The codes that people meet, in their words. `id` is what failed; `again` is the command that goes on.
pub fn advice(id: &ResourceId, e: &azure::Error, again: &str) -> Advice {
    let subscription = id.subscription().unwrap_or("SUBSCRIPTION");
    let region = || format!("az vm list-usage --location LOCATION --subscription {subscription} -o table");
    let code = |c: &str| e.has_code(c);
    let (cause, next) = if code("AuthorizationFailed") || code("LinkedAuthorizationFailed") {
        ("the account may not do this", "zaffre doctor azure".to_owned())
    } else if code("PrincipalNotFound") {
        ("the identity is not known to the directory yet", again.to_owned())
    } else if code("RoleAssignmentLimitExceeded") {
        (
            "the subscription has as many role assignments as it may",
            format!(
                "az role assignment list --all --subscription {subscription}, delete what is not needed, then {again}"
            ),
        )
    } else if code("ScopeLocked") {
        (
            "somebody put a lock on it",
            format!("az lock list --resource-group {}", id.group().unwrap_or_default()),
        )
    } else if code("RequestDisallowedByPolicy") {
        (
            "a policy of the subscription forbids it",
            "az policy assignment list --disable-scope-strict-match".to_owned(),
        )
    } else if code("MissingSubscriptionRegistration") || matches!(e, azure::Error::Registration { .. }) {
        let ns = id.namespace().unwrap_or_default();
        ("the provider is not registered", format!("az provider register --wait -n {ns}"))
    } else if code("PublicIPCountLimitReached") || code("QuotaExceeded") || code("OperationNotAllowed") {
        ("the quota of the region is used up", region())
    } else if code("InvalidResourceGroupLocation") {
        ("the group exists in another region", "give the group's own --location".to_owned())
    } else if code("ResourceGroupBeingDeleted") {
        ("the group is still being deleted by an earlier run", again.to_owned())
    } else if code("AnotherOperationInProgress") || code("RetryableError") {
        ("somebody else is changing the same resource", again.to_owned())
    } else if code("NetcfgSubnetRangesOverlap") || code("NetcfgInvalidSubnet") {
        ("the addresses are taken in that network", "give a free --subnet-id".to_owned())
    } else if e.is_precondition() {
        ("somebody changed it while this ran", again.to_owned())
    } else if e.status() == Some(429) {
        ("Azure limits the number of calls", format!("wait some minutes, then {again}"))
    } else if e.is_transient() {
        ("Azure was not able to answer", again.to_owned())
    } else if matches!(e, azure::Error::Operation { .. }) {
        ("Azure began and could not finish", again.to_owned())
    } else {
        ("Azure refused it", again.to_owned())
    };
    Advice { cause, next }
}
