"""The Azure SDK for Python against the simulator whose environment is sourced.

Prints `ok <name>` per check and exits 1 at the end if any failed. The clients are for public Azure and are not
told otherwise: the proxy and the CA bundle of the environment lead them to the simulator. Each check works in a
resource group of its own. The check of federated credentials runs an issuer (see issuer.py).

    . env-file; target/venv-azure/bin/python interop/python/test_azure.py [name ...]
"""

import base64
import datetime
import json
import os
import sys
import tempfile
import urllib.request
import uuid

from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.identity import CertificateCredential, ClientSecretCredential, DefaultAzureCredential, WorkloadIdentityCredential
from azure.mgmt.authorization import AuthorizationManagementClient
from azure.mgmt.dns import DnsManagementClient
from azure.mgmt.msi import ManagedServiceIdentityClient
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.privatedns import PrivateDnsManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient

from checks import check, expect, refused, run

SUBSCRIPTION, TENANT = os.environ["AZURE_SUBSCRIPTION_ID"], os.environ["AZURE_TENANT_ID"]
CLIENT, SECRET = os.environ["AZURE_CLIENT_ID"], os.environ["AZURE_CLIENT_SECRET"]
SCOPE = "https://management.azure.com/.default"


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

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        if failed:
            return
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
def pollers(w):
    """An operation is seen under way, can be handed to another poller, and ends with the resource."""
    body = {"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}}
    poller = w.network.virtual_networks.begin_create_or_update(w.rg, "vn", body)
    again = w.network.virtual_networks.begin_create_or_update(w.rg, "vn", body, continuation_token=poller.continuation_token())
    expect(again.result().name == "vn" and again.done() and again.status() == "Succeeded", f"{again.status()}")
    expect(poller.result().id == again.result().id, "both end alike")
    gone = w.network.virtual_networks.begin_delete(w.rg, "vn")
    expect(gone.result() is None and gone.status() == "Succeeded", f"{gone.status()}")


@check
def pages(w):
    """More than one page, followed by itself or page after page."""
    for i in range(7):
        w.msi.user_assigned_identities.create_or_update(w.rg, f"id-{i}", {"location": "westus2"})
    found = w.resources.resources.list_by_resource_group(w.rg, top=3)
    sizes = [len(list(page)) for page in found.by_page()]
    expect(sum(sizes) == 7 and len(sizes) == 3, f"{sizes}")
    names = [r.name for r in w.resources.resources.list_by_resource_group(w.rg, top=2, filter="resourceType eq 'Microsoft.ManagedIdentity/userAssignedIdentities'")]
    expect(names == sorted(f"id-{i}" for i in range(7)), f"{names}")
    w.dns.zones.create_or_update(w.rg, "pages.test", {"location": "global"})
    for i in range(5):
        w.dns.record_sets.create_or_update(w.rg, "pages.test", f"r{i}", "A", {"properties": {"TTL": 1, "ARecords": [{"ipv4Address": "10.0.0.1"}]}})
    records = [r.name for r in w.dns.record_sets.list_by_type(w.rg, "pages.test", "A", top=2)]
    expect(records == [f"r{i}" for i in range(5)], f"{records}")


@check
def etags(w):
    w.dns.zones.create_or_update(w.rg, "e.test", {"location": "global"})
    body = {"properties": {"TTL": 60, "ARecords": [{"ipv4Address": "10.0.0.1"}]}}
    put = lambda **conditions: w.dns.record_sets.create_or_update(w.rg, "e.test", "www", "A", body, **conditions)
    made = put(if_none_match="*")
    refused(lambda: put(if_none_match="*"), 412, "PreconditionFailed")
    changed = put(if_match=made.etag)
    expect(changed.etag != made.etag, "a new etag")
    refused(lambda: put(if_match=made.etag), 412, "PreconditionFailed")
    remove = lambda etag: w.dns.record_sets.delete(w.rg, "e.test", "www", "A", if_match=etag)
    refused(lambda: remove(made.etag), 412, "PreconditionFailed")
    remove(changed.etag)


@check
def errors(w):
    refused(lambda: w.network.virtual_networks.begin_create_or_update(w.rg, "bad", {"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/99"]}}}), 400, "InvalidAddressPrefixFormat")
    refused(lambda: w.msi.user_assigned_identities.get(w.rg, "absent"), 404, "ResourceNotFound")
    refused(lambda: w.resources.resource_groups.create_or_update("x" * 91, {"location": "westus2"}), 400, "InvalidResourceGroup")
    refused(lambda: w.resources.resource_groups.create_or_update(w.rg, {"location": "eastus"}), 409, "InvalidResourceGroupLocation")
    refused(lambda: w.roles.role_assignments.create(w.group.id, "not-a-guid", {"properties": {"roleDefinitionId": "x", "principalId": "y"}}), 400, "InvalidRoleAssignmentId")
    other = NetworkManagementClient(DefaultAzureCredential(), str(uuid.uuid4()))
    refused(lambda: other.virtual_networks.get("g", "v"), 404, "SubscriptionNotFound")


@check
def private_zones(w):
    body = {"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}}
    vnet = w.network.virtual_networks.begin_create_or_update(w.rg, "vn", body).result()
    w.private.private_zones.begin_create_or_update(w.rg, "p.test", {"location": "global"}).result()
    link = {"location": "global", "properties": {"registrationEnabled": False, "virtualNetwork": {"id": vnet.id}}}
    made = w.private.virtual_network_links.begin_create_or_update(w.rg, "p.test", "l", link).result()
    expect(made.virtual_network_link_state == "Completed", f"{made}")
    try:
        w.private.virtual_network_links.begin_create_or_update(w.rg, "p.test", "l2", link).result()
        raise AssertionError("a second link to one network was accepted")
    except HttpResponseError as e:
        expect("already linked" in str(e) and "Conflict" in str(e), f"{e}")
    w.private.record_sets.create_or_update(w.rg, "p.test", "A", "api", {"properties": {"ttl": 60, "aRecords": [{"ipv4Address": "10.0.0.4"}]}})
    expect([r.name for r in w.private.record_sets.list_by_type(w.rg, "p.test", "A")] == ["api"], "records")
    refused(lambda: w.private.private_zones.begin_delete(w.rg, "p.test").result(), 409, "CannotDeleteResource")
    for name in ["l", "l2"]:
        w.private.virtual_network_links.begin_delete(w.rg, "p.test", name).result()
    w.private.private_zones.begin_delete(w.rg, "p.test").result()


def aadsts(credential):
    """The number of the refusal, or None for a token."""
    try:
        credential.get_token(SCOPE)
    except ClientAuthenticationError as e:
        text = str(e)
        return text[text.index("AADSTS") :].split(":")[0]
    return None


@check
def secrets(w):
    expect(aadsts(ClientSecretCredential(TENANT, CLIENT, SECRET)) is None, "the right secret")
    expect(aadsts(ClientSecretCredential(TENANT, CLIENT, "wrong")) == "AADSTS7000215", "a wrong secret")
    expect(aadsts(ClientSecretCredential(TENANT, str(uuid.uuid4()), SECRET)) == "AADSTS700016", "an unknown application")
    nowhere = str(uuid.uuid4())
    try:
        ClientSecretCredential(nowhere, CLIENT, SECRET).get_token(SCOPE)
        raise AssertionError("an unknown tenant was accepted")
    except (ClientAuthenticationError, ValueError) as e:
        expect(nowhere in str(e), f"{e}")


def graph(method, path, body=None):
    token = DefaultAzureCredential().get_token("https://graph.microsoft.com/.default").token
    request = urllib.request.Request(f"https://graph.microsoft.com/v1.0/{path}", method=method)
    request.add_header("authorization", f"Bearer {token}")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, json.dumps(body).encode() if body is not None else None) as response:
        raw = response.read()
    return json.loads(raw) if raw else None


def certificate():
    """A self-signed one: key and certificate in PEM, the certificate in DER."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "robot")])
    now = datetime.datetime.now(datetime.timezone.utc)
    cert = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(x509.random_serial_number())
    cert = cert.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem + cert.public_bytes(serialization.Encoding.PEM), cert.public_bytes(serialization.Encoding.DER)


@check
def certificates(w):
    pem, der = certificate()
    application = graph("POST", "applications", {"displayName": "python-robot"})
    graph("POST", "servicePrincipals", {"appId": application["appId"]})
    made = lambda: CertificateCredential(TENANT, application["appId"], certificate_data=pem)
    expect(aadsts(made()) == "AADSTS700027", "not registered yet")
    key = {"type": "AsymmetricX509Cert", "usage": "Verify", "key": base64.b64encode(der).decode()}
    graph("PATCH", f"applications/{application['id']}", {"keyCredentials": [key]})
    expect(aadsts(made()) is None, "registered")
    mine = ResourceManagementClient(made(), SUBSCRIPTION)
    refused(lambda: mine.resource_groups.get(w.rg), 403, "AuthorizationFailed")
    graph("DELETE", f"applications/{application['id']}")


@check
def federated(w):
    """A key pair, its issuer, an identity that trusts it; then each way it must fail."""
    from issuer import AUDIENCE, Issuer

    issuer, subject = Issuer(), "system:serviceaccount:ns:robot"
    identity = w.msi.user_assigned_identities.create_or_update(w.rg, "workload", {"location": "westus2"})
    fic = {"properties": {"issuer": issuer.url, "subject": subject, "audiences": [AUDIENCE]}}
    w.msi.federated_identity_credentials.create_or_update(w.rg, "workload", "fic", fic)
    with tempfile.NamedTemporaryFile("w") as file:

        def present(token):
            file.seek(0)
            file.truncate()
            file.write(token)
            file.flush()
            return WorkloadIdentityCredential(tenant_id=TENANT, client_id=identity.client_id, token_file_path=file.name)

        flaws = [
            ("AADSTS700211", issuer.token(subject, issuer="https://elsewhere.test")),
            ("AADSTS700212", issuer.token(subject, audience="elsewhere")),
            ("AADSTS700213", issuer.token("system:serviceaccount:ns:other")),
            ("AADSTS700024", issuer.token(subject, expires=-600)),
            ("AADSTS700027", "junk.junk.junk"),
        ]
        for code, token in flaws:
            got = aadsts(present(token))
            expect(got == code, f"got {got}, want {code}")
        old = issuer.token(subject)
        issuer.rotate("second")
        got = aadsts(present(old))
        expect(got in ("AADSTS700027", "AADSTS7000272"), f"signed with a key that is gone: {got}")
        credential = present(issuer.token(subject))
        expect(aadsts(credential) is None, "the good one")
        mine = ResourceManagementClient(credential, SUBSCRIPTION)
        refused(lambda: mine.resource_groups.get(w.rg), 403, "AuthorizationFailed")
        role = next(iter(w.roles.role_definitions.list(w.group.id, filter="roleName eq 'Reader'")))
        body = {"properties": {"roleDefinitionId": role.id, "principalId": identity.principal_id, "principalType": "ServicePrincipal"}}
        w.roles.role_assignments.create(w.group.id, str(uuid.uuid4()), body)
        expect(mine.resource_groups.get(w.rg).name == w.rg, "allowed now")
        refused(lambda: mine.resource_groups.create_or_update(w.rg, {"location": "westus2"}), 403, "AuthorizationFailed")
        issuer.close()
        got = aadsts(present(issuer.token(subject)))
        expect(got == "AADSTS50166", f"no issuer to ask: {got}")


sys.exit(1 if run(sys.argv[1:], World) else 0)
