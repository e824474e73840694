"""The Azure SDK for Python against the simulator whose environment is sourced.

Prints `ok <name>` per check and exits 1 at the end if any failed. The clients are for public Azure and are not
told otherwise: the proxy and the CA bundle of the environment lead them to the simulator. Each check works in a
resource group of its own.

    . env-file; target/venv/bin/python interop/python/test_azure.py [name ...]
"""

import os
import sys
import traceback
import uuid

from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from azure.mgmt.authorization import AuthorizationManagementClient
from azure.mgmt.dns import DnsManagementClient
from azure.mgmt.msi import ManagedServiceIdentityClient
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.privatedns import PrivateDnsManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient

SUBSCRIPTION = os.environ["AZURE_SUBSCRIPTION_ID"]
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def refused(call, status, code):
    """The call must fail with exactly this answer."""
    try:
        call()
    except HttpResponseError as e:
        expect(e.status_code == status and e.error.code == code, f"got {e.status_code} {e.error and e.error.code}, want {status} {code}")
    else:
        raise AssertionError(f"accepted, want {status} {code}")


class World:
    def __init__(self):
        credential = DefaultAzureCredential()
        self.resources = ResourceManagementClient(credential, SUBSCRIPTION)
        self.network = NetworkManagementClient(credential, SUBSCRIPTION)
        self.msi = ManagedServiceIdentityClient(credential, SUBSCRIPTION)
        self.roles = AuthorizationManagementClient(credential, SUBSCRIPTION)
        self.dns = DnsManagementClient(credential, SUBSCRIPTION)
        self.private = PrivateDnsManagementClient(credential, SUBSCRIPTION)
        self.rg = f"python-{uuid.uuid4().hex[:8]}"
        self.group = self.resources.resource_groups.create_or_update(self.rg, {"location": "westus2", "tags": {"a": "b"}})

    def close(self):
        self.resources.resource_groups.begin_delete(self.rg).result()
        expect(not self.resources.resource_groups.check_existence(self.rg), "the group is still there")


@check
def groups(w):
    expect(w.group.properties.provisioning_state == "Succeeded", "not provisioned")
    expect(w.rg in [g.name for g in w.resources.resource_groups.list()], "not listed")
    refused(lambda: w.resources.resource_groups.get("absent"), 404, "ResourceGroupNotFound")


@check
def networks(w):
    body = {"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "a", "properties": {"addressPrefix": "10.0.0.0/24"}}]}}
    vnet = w.network.virtual_networks.begin_create_or_update(w.rg, "vn", body).result()
    expect(vnet.provisioning_state == "Succeeded" and vnet.subnets[0].name == "a", f"{vnet}")
    nsg = w.network.network_security_groups.begin_create_or_update(w.rg, "nsg", {"location": "westus2"}).result()
    expect(len(nsg.default_security_rules) == 6, "six default rules")
    sub = {"properties": {"addressPrefix": "10.0.1.0/24", "networkSecurityGroup": {"id": nsg.id}}}
    subnet = w.network.subnets.begin_create_or_update(w.rg, "vn", "b", sub).result()
    expect([s.name for s in w.network.subnets.list(w.rg, "vn")] == ["a", "b"], "subnets listed")
    refused(lambda: w.network.network_security_groups.begin_delete(w.rg, "nsg").result(), 400, "InUseNetworkSecurityGroupCannotBeDeleted")
    pip_body = {"location": "westus2", "sku": {"name": "Standard"}, "properties": {"publicIPAllocationMethod": "Static"}}
    pip = w.network.public_ip_addresses.begin_create_or_update(w.rg, "pip", pip_body).result()
    expect(pip.ip_address, "no address")
    nic_body = {"location": "westus2", "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": subnet.id}, "publicIPAddress": {"id": pip.id}}}]}}
    nic = w.network.network_interfaces.begin_create_or_update(w.rg, "nic", nic_body).result()
    expect(nic.ip_configurations[0].private_ip_address == "10.0.1.4", "first usable address")
    refused(lambda: w.network.subnets.begin_delete(w.rg, "vn", "b").result(), 400, "InUseSubnetCannotBeDeleted")
    refused(lambda: w.network.public_ip_addresses.begin_delete(w.rg, "pip").result(), 400, "PublicIPAddressCannotBeDeleted")
    w.network.network_interfaces.begin_delete(w.rg, "nic").result()
    w.network.subnets.begin_delete(w.rg, "vn", "b").result()
    w.network.network_security_groups.begin_delete(w.rg, "nsg").result()
    refused(lambda: w.network.virtual_networks.get(w.rg, "absent"), 404, "ResourceNotFound")


@check
def load_balancers(w):
    pip_body = {"location": "westus2", "sku": {"name": "Standard"}, "properties": {"publicIPAllocationMethod": "Static"}}
    pip = w.network.public_ip_addresses.begin_create_or_update(w.rg, "pip", pip_body).result()
    at = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{w.rg}/providers/Microsoft.Network/loadBalancers/lb"
    body = {"location": "westus2", "sku": {"name": "Standard"}, "properties": {
        "frontendIPConfigurations": [{"name": "f", "properties": {"publicIPAddress": {"id": pip.id}}}],
        "backendAddressPools": [{"name": "p"}],
        "probes": [{"name": "q", "properties": {"protocol": "Tcp", "port": 80}}],
        "loadBalancingRules": [{"name": "r", "properties": {"frontendIPConfiguration": {"id": f"{at}/frontendIPConfigurations/f"}, "backendAddressPool": {"id": f"{at}/backendAddressPools/p"}, "probe": {"id": f"{at}/probes/q"}, "protocol": "Tcp", "frontendPort": 80, "backendPort": 80}}],
    }}
    lb = w.network.load_balancers.begin_create_or_update(w.rg, "lb", body).result()
    expect(lb.frontend_ip_configurations[0].load_balancing_rules[0].id.endswith("/r"), "back-reference")


@check
def identities_and_roles(w):
    identity = w.msi.user_assigned_identities.create_or_update(w.rg, "id", {"location": "westus2"})
    fic = {"properties": {"issuer": "https://issuer.test/", "subject": "system:serviceaccount:a:b", "audiences": ["openshift"]}}
    made = w.msi.federated_identity_credentials.create_or_update(w.rg, "id", "fic", fic)
    expect(made.audiences == ["openshift"], f"{made}")
    role = next(iter(w.roles.role_definitions.list(w.group.id, filter="roleName eq 'Reader'")))
    body = {"properties": {"roleDefinitionId": role.id, "principalId": identity.principal_id, "principalType": "ServicePrincipal"}}
    name = str(uuid.uuid4())
    w.roles.role_assignments.create(w.group.id, name, body)
    refused(lambda: w.roles.role_assignments.create(w.group.id, str(uuid.uuid4()), body), 409, "RoleAssignmentExists")
    found = [a.name for a in w.roles.role_assignments.list_for_scope(w.group.id, filter=f"principalId eq '{identity.principal_id}'")]
    expect(found == [name], f"{found}")
    w.roles.role_assignments.delete(w.group.id, name)


@check
def zones(w):
    zone = w.dns.zones.create_or_update(w.rg, "z.test", {"location": "global"})
    expect(len(zone.name_servers) == 4, "four name servers")
    w.dns.record_sets.create_or_update(w.rg, "z.test", "www", "A", {"properties": {"TTL": 60, "ARecords": [{"ipv4Address": "10.0.0.1"}]}})
    expect(len(list(w.dns.record_sets.list_by_dns_zone(w.rg, "z.test"))) == 3, "NS, SOA, A")
    private = w.private.private_zones.begin_create_or_update(w.rg, "p.test", {"location": "global"}).result()
    expect(private.number_of_record_sets == 1, "SOA")
    w.private.private_zones.begin_delete(w.rg, "p.test").result()


@check
def bad_secret(w):
    c = ClientSecretCredential(os.environ["AZURE_TENANT_ID"], os.environ["AZURE_CLIENT_ID"], "wrong")
    try:
        c.get_token("https://management.azure.com/.default")
    except ClientAuthenticationError as e:
        expect("AADSTS7000215" in str(e), str(e))
    else:
        raise AssertionError("accepted a wrong secret")


def main():
    wanted = sys.argv[1:]
    failed = []
    for function in CHECKS:
        if wanted and function.__name__ not in wanted:
            continue
        w = None
        try:
            w = World()
            function(w)
            w.close()
            print(f"ok {function.__name__}", flush=True)
        except Exception:
            failed.append(function.__name__)
            print(f"FAILED {function.__name__}", flush=True)
            traceback.print_exc()
    sys.exit(1 if failed else 0)


main()
