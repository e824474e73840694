//! `Microsoft.Authorization`.

use super::fields;
use crate::{Resource, ResourceId};

pub type RoleAssignment = Resource<RoleAssignmentProperties>;
pub type RoleDefinition = Resource<RoleDefinitionProperties>;
pub type Lock = Resource<LockProperties>;

fields! {
    RoleAssignmentProperties {
        role_definition_id "roleDefinitionId": ResourceId,
        principal_id "principalId": String,
        /// Give it: without it a new principal may not be found yet.
        principal_type "principalType": String,
        scope "scope": String,
        description "description": String,
        condition "condition": String,
        condition_version "conditionVersion": String,
    }

    RoleDefinitionProperties {
        role_name "roleName": String,
        description "description": String,
        /// `BuiltInRole` or `CustomRole`.
        role_type "type": String,
        permissions "permissions": Vec<Permission>,
        assignable_scopes "assignableScopes": Vec<String>,
    }

    /// Also what the `permissions` list of a scope is made of.
    Permission {
        actions "actions": Vec<String>,
        not_actions "notActions": Vec<String>,
        data_actions "dataActions": Vec<String>,
        not_data_actions "notDataActions": Vec<String>,
    }

    LockProperties {
        /// `CanNotDelete` or `ReadOnly`.
        level "level": String,
        notes "notes": String,
    }
}
