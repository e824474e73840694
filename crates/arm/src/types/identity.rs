//! `Microsoft.ManagedIdentity`.

use super::fields;
use crate::Resource;

pub type UserAssignedIdentity = Resource<UserAssignedIdentityProperties>;
pub type FederatedCredential = Resource<FederatedCredentialProperties>;

fields! {
    UserAssignedIdentityProperties {
        tenant_id "tenantId": String,
        principal_id "principalId": String,
        client_id "clientId": String,
        isolation_scope "isolationScope": String,
    }

    /// Whose tokens the identity accepts. Exactly one audience; compared case-sensitively.
    FederatedCredentialProperties {
        issuer "issuer": String,
        subject "subject": String,
        audiences "audiences": Vec<String>,
    }
}
