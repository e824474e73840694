//! The Kubernetes kinds that we own or read, as Rust types, and their definitions.
//!
//! One type is the truth: serde reads and writes it, schemars makes the schema, and [`crds`] the
//! CustomResourceDefinitions that `zaffre install` applies and that are committed under `crds/`. Rules that
//! hold whoever writes (immutability, unions, cross-field checks) are CEL in those definitions; each message names
//! the field and the way out. What needs IO (does the subnet exist?) is not here: nothing in this crate does IO,
//! reads a clock or knows a client.
//!
//! # Fields that we do not know
//!
//! A management cluster may carry newer definitions than ours, so an object may have fields that no type here has.
//! Three things keep them:
//!
//! * the types name *every* field that today's definitions have, and hold what we do not act on as JSON
//!   ([`common::Json`], or a flattened `other` in OpenShift's configuration): any object that is valid today survives
//!   type and back (a property test draws them from the published schemas);
//! * objects that we own are written by server-side apply, which touches only the fields it names;
//! * everything else is changed by [`edit`]: typed before, typed after, and what is sent is the *difference* as a merge
//!   patch. A typed struct never replaces a stored object.
//!
//! Rejected: a flattened map in every struct (each level buffered twice, a field of noise in every literal, and
//! lists still lose what a program drops), and raw JSON everywhere (the compiler would know nothing).
//!
//! # Where things are
//!
//! [`hypershift`] HostedCluster and what belongs to it; [`scheduling`] sizes of them; [`capi`], [`capz`] machines; [`openshift`] what guests
//! have; [`secrets_store`] vault mounts; [`conditions`] and [`names`] the words that controllers share;
//! [`naming`], [`version`], [`azure_ids`] small pure functions on them.

#![allow(clippy::duplicated_attributes, reason = "each printer column says its type")]

pub mod azure_ids;
pub mod capi;
pub mod capz;
pub mod common;
pub mod conditions;
pub mod duration;
pub mod edit;
pub mod hypershift;
pub mod names;
pub mod naming;
pub mod openshift;
pub mod scheduling;
mod schema;
pub mod secrets_store;
pub mod version;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schema::{definition, ruled};

/// The definitions of the kinds that every management cluster of ours needs.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut all = hypershift_crds();
    all.extend(machine_crds());
    all.extend(brought_along());
    all
}

/// The same for clusters where upstream's controllers keep machines: its own definitions stand beside these.
pub fn crds_without_machines() -> Vec<CustomResourceDefinition> {
    let mut all = hypershift_crds();
    all.extend(brought_along());
    all
}

/// What OpenShift and the driver of vaults would bring.
fn brought_along() -> Vec<CustomResourceDefinition> {
    let mut all = openshift_crds();
    all.push(definition::<secrets_store::SecretProviderClass>());
    all
}

/// `hypershift.openshift.io`, its certificates group and its scheduling group.
pub fn hypershift_crds() -> Vec<CustomResourceDefinition> {
    use hypershift::*;
    vec![
        definition::<HostedCluster>(),
        definition::<NodePool>(),
        definition::<HostedControlPlane>(),
        definition::<ControlPlaneComponent>(),
        definition::<HCPEtcdBackup>(),
        definition::<AzurePrivateLinkService>(),
        definition::<CertificateSigningRequestApproval>(),
        definition::<CertificateRevocationRequest>(),
        ruled(definition::<scheduling::ClusterSizingConfiguration>(), scheduling::only_name()),
    ]
}

/// Cluster API and its Azure provider; not to be installed where upstream's controllers are.
pub fn machine_crds() -> Vec<CustomResourceDefinition> {
    use capi::*;
    use capz::*;
    vec![
        definition::<Cluster>(),
        definition::<MachineDeployment>(),
        definition::<MachineSet>(),
        definition::<Machine>(),
        definition::<MachineHealthCheck>(),
        definition::<AzureCluster>(),
        definition::<AzureClusterIdentity>(),
        definition::<AzureMachine>(),
        definition::<AzureMachineTemplate>(),
    ]
}

/// OpenShift's kinds: for guests, and (Route) for management clusters that are not OpenShift.
pub fn openshift_crds() -> Vec<CustomResourceDefinition> {
    use openshift::*;
    vec![
        definition::<Route>(),
        definition::<ClusterVersion>(),
        definition::<ClusterOperator>(),
        definition::<Infrastructure>(),
        definition::<APIServer>(),
        definition::<Authentication>(),
        definition::<Build>(),
        definition::<DNS>(),
        definition::<FeatureGate>(),
        definition::<Image>(),
        definition::<ImageDigestMirrorSet>(),
        definition::<Ingress>(),
        definition::<Network>(),
        definition::<OAuth>(),
        definition::<OperatorHub>(),
        definition::<Proxy>(),
        definition::<Scheduler>(),
    ]
}
