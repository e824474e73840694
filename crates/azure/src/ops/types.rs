//! The types, a row each.

use super::{ArmType, Place, Row};
use arm::types::*;

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident: $body:ty = $kind:literal @ $version:literal in $place:ident $(hides $($hidden:literal)+)?;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}

            impl ArmType for $name {
                type Body = $body;
                const ROW: Row = Row {
                    kind: $kind,
                    api_version: $version,
                    place: Place::$place,
                    write_only: &[$($($hidden),+)?],
                };
            }
        )*

        /// All rows.
        pub static TYPES: &[Row] = &[$($name::ROW),*];
    };
}

rows! {
    ResourceGroups: ResourceGroup = "Microsoft.Resources/resourceGroups" @ "2021-04-01" in Subscription;
    Deployments: Deployment = "Microsoft.Resources/deployments" @ "2024-11-01" in Group hides "/properties/template";
    /// The tags of a scope; their only name is `default`.
    TagsOf: TagsAt = "Microsoft.Resources/tags" @ "2021-04-01" in Extension;
    Locks: Lock = "Microsoft.Authorization/locks" @ "2020-05-01" in Extension;
    RoleAssignments: RoleAssignment = "Microsoft.Authorization/roleAssignments" @ "2022-04-01" in Extension;
    RoleDefinitions: RoleDefinition = "Microsoft.Authorization/roleDefinitions" @ "2022-04-01" in Extension;

    VirtualNetworks: VirtualNetwork = "Microsoft.Network/virtualNetworks" @ "2024-05-01" in Group;
    Subnets: Subnet = "Microsoft.Network/virtualNetworks/subnets" @ "2024-05-01" in Child;
    SecurityGroups: SecurityGroup = "Microsoft.Network/networkSecurityGroups" @ "2024-05-01" in Group;
    SecurityRules: SecurityRule = "Microsoft.Network/networkSecurityGroups/securityRules" @ "2024-05-01" in Child;
    PublicIpAddresses: PublicIpAddress = "Microsoft.Network/publicIPAddresses" @ "2024-05-01" in Group;
    LoadBalancers: LoadBalancer = "Microsoft.Network/loadBalancers" @ "2024-05-01" in Group;
    NetworkInterfaces: NetworkInterface = "Microsoft.Network/networkInterfaces" @ "2024-05-01" in Group;
    NatGateways: NatGateway = "Microsoft.Network/natGateways" @ "2024-05-01" in Group;
    RouteTables: RouteTable = "Microsoft.Network/routeTables" @ "2024-05-01" in Group;
    Routes: Route = "Microsoft.Network/routeTables/routes" @ "2024-05-01" in Child;

    PrivateEndpoints: PrivateEndpoint = "Microsoft.Network/privateEndpoints" @ "2024-05-01" in Group;
    PrivateDnsZoneGroups: PrivateDnsZoneGroup = "Microsoft.Network/privateEndpoints/privateDnsZoneGroups" @ "2024-05-01" in Child;
    PrivateLinkServices: PrivateLinkService = "Microsoft.Network/privateLinkServices" @ "2024-05-01" in Group;
    /// Approved, rejected and ended by the service; made by the endpoint.
    PrivateEndpointConnections: PrivateEndpointConnection = "Microsoft.Network/privateLinkServices/privateEndpointConnections" @ "2024-05-01" in Child;

    VirtualMachines: VirtualMachine = "Microsoft.Compute/virtualMachines" @ "2024-03-01" in Group hides "/properties/osProfile/adminPassword" "/properties/osProfile/customData" "/properties/userData";
    VirtualMachineExtensions: VirtualMachineExtension = "Microsoft.Compute/virtualMachines/extensions" @ "2024-03-01" in Child hides "/properties/protectedSettings";
    AvailabilitySets: AvailabilitySet = "Microsoft.Compute/availabilitySets" @ "2024-03-01" in Group;
    Images: Image = "Microsoft.Compute/images" @ "2024-03-01" in Group;
    Disks: Disk = "Microsoft.Compute/disks" @ "2023-10-02" in Group;
    Snapshots: Snapshot = "Microsoft.Compute/snapshots" @ "2023-10-02" in Group;
    DiskEncryptionSets: DiskEncryptionSet = "Microsoft.Compute/diskEncryptionSets" @ "2023-10-02" in Group;
    Galleries: Gallery = "Microsoft.Compute/galleries" @ "2023-07-03" in Group;
    GalleryImages: GalleryImage = "Microsoft.Compute/galleries/images" @ "2023-07-03" in Child;
    GalleryImageVersions: GalleryImageVersion = "Microsoft.Compute/galleries/images/versions" @ "2023-07-03" in Child;

    StorageAccounts: StorageAccount = "Microsoft.Storage/storageAccounts" @ "2023-05-01" in Group;
    BlobServices: StorageService = "Microsoft.Storage/storageAccounts/blobServices" @ "2023-05-01" in Child;
    BlobContainers: BlobContainer = "Microsoft.Storage/storageAccounts/blobServices/containers" @ "2023-05-01" in Child;
    FileServices: StorageService = "Microsoft.Storage/storageAccounts/fileServices" @ "2023-05-01" in Child;
    FileShares: FileShare = "Microsoft.Storage/storageAccounts/fileServices/shares" @ "2023-05-01" in Child;

    Vaults: KeyVault = "Microsoft.KeyVault/vaults" @ "2023-07-01" in Group hides "/properties/createMode";

    Registries: ContainerRegistry = "Microsoft.ContainerRegistry/registries" @ "2023-07-01" in Group;
    RegistryReplications: RegistryReplication = "Microsoft.ContainerRegistry/registries/replications" @ "2023-07-01" in Child;

    DnsZones: DnsZone = "Microsoft.Network/dnsZones" @ "2018-05-01" in Group;
    DnsA: DnsRecordSet = "Microsoft.Network/dnsZones/A" @ "2018-05-01" in Child;
    DnsAaaa: DnsRecordSet = "Microsoft.Network/dnsZones/AAAA" @ "2018-05-01" in Child;
    DnsCaa: DnsRecordSet = "Microsoft.Network/dnsZones/CAA" @ "2018-05-01" in Child;
    DnsCname: DnsRecordSet = "Microsoft.Network/dnsZones/CNAME" @ "2018-05-01" in Child;
    DnsMx: DnsRecordSet = "Microsoft.Network/dnsZones/MX" @ "2018-05-01" in Child;
    DnsNs: DnsRecordSet = "Microsoft.Network/dnsZones/NS" @ "2018-05-01" in Child;
    DnsPtr: DnsRecordSet = "Microsoft.Network/dnsZones/PTR" @ "2018-05-01" in Child;
    DnsSoa: DnsRecordSet = "Microsoft.Network/dnsZones/SOA" @ "2018-05-01" in Child;
    DnsSrv: DnsRecordSet = "Microsoft.Network/dnsZones/SRV" @ "2018-05-01" in Child;
    DnsTxt: DnsRecordSet = "Microsoft.Network/dnsZones/TXT" @ "2018-05-01" in Child;

    PrivateDnsZones: PrivateDnsZone = "Microsoft.Network/privateDnsZones" @ "2024-06-01" in Group;
    PrivateDnsLinks: PrivateDnsLink = "Microsoft.Network/privateDnsZones/virtualNetworkLinks" @ "2024-06-01" in Child;
    PrivateDnsA: PrivateDnsRecordSet = "Microsoft.Network/privateDnsZones/A" @ "2024-06-01" in Child;
    PrivateDnsAaaa: PrivateDnsRecordSet = "Microsoft.Network/privateDnsZones/AAAA" @ "2024-06-01" in Child;
    PrivateDnsCname: PrivateDnsRecordSet = "Microsoft.Network/privateDnsZones/CNAME" @ "2024-06-01" in Child;
    PrivateDnsMx: PrivateDnsRecordSet = "Microsoft.Network/privateDnsZones/MX" @ "2024-06-01" in Child;
    PrivateDnsPtr: PrivateDnsRecordSet = "Microsoft.Network/privateDnsZones/PTR" @ "2024-06-01" in Child;
    PrivateDnsSoa: PrivateDnsRecordSet = "Microsoft.Network/privateDnsZones/SOA" @ "2024-06-01" in Child;
    PrivateDnsSrv: PrivateDnsRecordSet = "Microsoft.Network/privateDnsZones/SRV" @ "2024-06-01" in Child;
    PrivateDnsTxt: PrivateDnsRecordSet = "Microsoft.Network/privateDnsZones/TXT" @ "2024-06-01" in Child;

    UserAssignedIdentities: UserAssignedIdentity = "Microsoft.ManagedIdentity/userAssignedIdentities" @ "2024-11-30" in Group;
    FederatedCredentials: FederatedCredential = "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials" @ "2024-11-30" in Child;
}

#[cfg(test)]
mod tests {
    use super::*;

    rows! {
        Machines: arm::Resource = "Test.Compute/machines" @ "2024-03-01" in Group hides "/properties/a" "/properties/b";
    }

    #[test]
    fn rows_may_hide_fields() {
        assert_eq!(Machines::ROW.write_only, ["/properties/a", "/properties/b"]);
        assert_eq!(TYPES.len(), 1);
    }
}
