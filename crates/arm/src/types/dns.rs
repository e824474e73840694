//! Public and private DNS. The two services spell the same fields differently.

use super::{SubResource, fields};
use crate::{ProvisioningState, Resource};
use serde_json::Value;
use std::collections::BTreeMap;

pub type DnsZone = Resource<DnsZoneProperties>;
pub type DnsRecordSet = Resource<DnsRecordSetProperties>;
pub type PrivateDnsZone = Resource<PrivateDnsZoneProperties>;
pub type PrivateDnsLink = Resource<PrivateDnsLinkProperties>;
pub type PrivateDnsRecordSet = Resource<PrivateDnsRecordSetProperties>;

fields! {
    DnsZoneProperties {
        name_servers "nameServers": Vec<String>,
        zone_type "zoneType": String,
        number_of_record_sets "numberOfRecordSets": u64,
    }

    PrivateDnsZoneProperties {
        number_of_record_sets "numberOfRecordSets": u64,
        number_of_links "numberOfVirtualNetworkLinks": u64,
        internal_id "internalId": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    PrivateDnsLinkProperties {
        virtual_network "virtualNetwork": SubResource,
        registration_enabled "registrationEnabled": bool,
        resolution_policy "resolutionPolicy": String,
        state "virtualNetworkLinkState": String,
        provisioning_state "provisioningState": ProvisioningState,
    }

    ARecord { address "ipv4Address": String }
    AaaaRecord { address "ipv6Address": String }
    CnameRecord { name "cname": String }
    TxtRecord { value "value": Vec<String> }
    NsRecord { name "nsdname": String }
    PtrRecord { name "ptrdname": String }
    MxRecord { preference "preference": u32, exchange "exchange": String }
    SrvRecord { priority "priority": u32, weight "weight": u32, port "port": u32, target "target": String }
    CaaRecord { flags "flags": u32, tag "tag": String, value "value": String }

    /// A record set of a public zone; the list of its own type is set.
    DnsRecordSetProperties {
        ttl "TTL": u64,
        a "ARecords": Vec<ARecord>,
        aaaa "AAAARecords": Vec<AaaaRecord>,
        cname "CNAMERecord": CnameRecord,
        txt "TXTRecords": Vec<TxtRecord>,
        ns "NSRecords": Vec<NsRecord>,
        ptr "PTRRecords": Vec<PtrRecord>,
        mx "MXRecords": Vec<MxRecord>,
        srv "SRVRecords": Vec<SrvRecord>,
        caa "caaRecords": Vec<CaaRecord>,
        soa "SOARecord": Value,
        fqdn "fqdn": String,
        metadata "metadata": BTreeMap<String, String>,
    }

    /// A record set of a private zone.
    PrivateDnsRecordSetProperties {
        ttl "ttl": u64,
        a "aRecords": Vec<ARecord>,
        aaaa "aaaaRecords": Vec<AaaaRecord>,
        cname "cnameRecord": CnameRecord,
        txt "txtRecords": Vec<TxtRecord>,
        ptr "ptrRecords": Vec<PtrRecord>,
        mx "mxRecords": Vec<MxRecord>,
        srv "srvRecords": Vec<SrvRecord>,
        soa "soaRecord": Value,
        fqdn "fqdn": String,
        is_auto_registered "isAutoRegistered": bool,
        metadata "metadata": BTreeMap<String, String>,
    }
}
