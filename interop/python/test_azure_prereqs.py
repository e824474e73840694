"""The Azure SDK for Python sees what `zaffre create` made, under the names that its plans said.

    . env-file; EXPECTED=expected.json target/venv-azure/bin/python interop/python/test_azure_prereqs.py

EXPECTED is a file with the ids of the plans, and with the names of secrets and applications. Prints `ok <name>` per
check; an exception ends it.
"""

import json
import os

from azure.identity import DefaultAzureCredential
from azure.keyvault.secrets import SecretClient
from azure.mgmt.authorization import AuthorizationManagementClient
from azure.mgmt.msi import ManagedServiceIdentityClient
from azure.mgmt.privatedns import PrivateDnsManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.storage.blob import BlobServiceClient

SUBSCRIPTION = os.environ["AZURE_SUBSCRIPTION_ID"]
with open(os.environ["EXPECTED"], encoding="utf-8") as f:
    EXPECTED = json.load(f)
IDS = {i.lower() for i in EXPECTED["ids"]}
CREDENTIAL = DefaultAzureCredential()


def of(kind):
    return {i for i in IDS if i.split("/")[-2] == kind.lower()}


def same(kind, items):
    want, seen = of(kind), {i.id.lower() for i in items}
    assert want, f"no {kind} was planned"
    assert want <= seen, f"{kind}: not seen: {sorted(want - seen)}"
    print(f"ok {kind}", flush=True)


resources = ResourceManagementClient(CREDENTIAL, SUBSCRIPTION)
same("resourceGroups", resources.resource_groups.list())
everything = list(resources.resources.list())
for kind in ["networkSecurityGroups", "virtualNetworks", "publicIPAddresses", "loadBalancers", "privateDnsZones",
             "userAssignedIdentities", "storageAccounts", "vaults"]:
    same(kind, everything)
assignments = AuthorizationManagementClient(CREDENTIAL, SUBSCRIPTION).role_assignments
same("roleAssignments", assignments.list_for_subscription())
msi = ManagedServiceIdentityClient(CREDENTIAL, SUBSCRIPTION)
credentials = []
for identity in msi.user_assigned_identities.list_by_subscription():
    group = identity.id.split("/")[4]
    credentials += msi.federated_identity_credentials.list(group, identity.name)
same("federatedIdentityCredentials", credentials)
zone = next(iter(of("privateDnsZones"))).split("/")
links = PrivateDnsManagementClient(CREDENTIAL, SUBSCRIPTION).virtual_network_links
same("virtualNetworkLinks", links.list(zone[4], zone[-1]))

vault = SecretClient(f"https://{EXPECTED['vault']}.vault.azure.net", CREDENTIAL)
secrets = sorted(s.name for s in vault.list_properties_of_secrets())
assert secrets == sorted(EXPECTED["secrets"]), secrets
value = json.loads(vault.get_secret(secrets[0]).value)
assert set(value) == {"authentication_endpoint", "client_id", "client_secret", "tenant_id", "not_before", "not_after"}
print("ok secrets", flush=True)

blobs = BlobServiceClient(f"https://{EXPECTED['account']}.blob.core.windows.net", CREDENTIAL)
container = blobs.get_container_client(EXPECTED["account"])
assert sorted(b.name for b in container.list_blobs()) == [".well-known/openid-configuration", "openid/v1/jwks"]
assert container.get_container_properties()["public_access"] == "container"
print("ok blobs", flush=True)
