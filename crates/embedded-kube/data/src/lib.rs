//! What is known about the built-in kinds of Kubernetes 1.34: their definitions, their resources, their
//! protobuf fields, and the OpenAPI documents that follow from these.
//!
//! Everything here is data or a pure function of it. The tables are generated and committed (`tables/`), the
//! resources are a table in source, because scope, verbs and short names are in none of the packages.

pub mod openapi;
pub mod resources;
mod tables;

/// The release all of this describes.
pub const KUBERNETES_VERSION: &str = "1.34.0";

pub use openapi::{
    ResourceDoc, SubresourceDoc, model_name, openapi_v2, openapi_v2_definitions_for, openapi_v2_paths_for,
    openapi_v3, openapi_v3_for, publishable_v2,
};
pub use resources::{GROUPS, Group, RESOURCES, Resource, Subresource, resource, resource_of_kind};
pub use tables::{
    PROTOBUF, definition_name, definition_name_of, definitions, definitions_json,
    definitions_with_descriptions,
};
