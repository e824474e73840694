"""The Azure CLI sees what `zaffre create` made, under the names that its plans said.

    . env-file; EXPECTED=expected.json target/venv-az/bin/python interop/python/az_prereqs.py public

EXPECTED is a file with the ids of the plans, and with the names of secrets and applications.
"""

import json
import os
import sys

import az_cli
from az_cli import az, names
from checks import check, expect, run

with open(os.environ["EXPECTED"], encoding="utf-8") as f:
    EXPECTED = json.load(f)
IDS = {i.lower() for i in EXPECTED["ids"]}


def of(kind):
    return {i for i in IDS if f"/{kind.lower()}/" in i and "/".join(i.split("/")[-2:]).startswith(kind.lower())}


def same(kind, items):
    want, seen = of(kind), {i["id"].lower() for i in items}
    expect(want, f"no {kind} was planned")
    expect(want <= seen, f"{kind}: az does not see {sorted(want - seen)}")


@check
def groups_and_resources():
    az_cli.enter()
    az_cli.login()
    same("resourceGroups", az("group list"))
    resources = az("resource list")
    kinds = ["networkSecurityGroups", "virtualNetworks", "publicIPAddresses", "loadBalancers", "privateDnsZones",
             "userAssignedIdentities", "storageAccounts", "vaults"]
    for kind in kinds:
        same(kind, resources)
    tags = [r["tags"] for r in resources if r["id"].lower() in IDS and "/virtualnetworklinks/" not in r["id"].lower()]
    expect(all("zaffre.io_made-by" in (t or {}) for t in tags), f"{tags}")


@check
def roles():
    same("roleAssignments", az("role assignment list --all"))


@check
def credentials_and_links():
    found = []
    for identity in az("identity list"):
        found += az(f"identity federated-credential list --identity-name {identity['name']} -g {identity['resourceGroup']}")
    same("federatedIdentityCredentials", found)
    zone = next(iter(of("privateDnsZones"))).split("/")
    same("virtualNetworkLinks", az(f"network private-dns link vnet list -g {zone[4]} -z {zone[-1]}"))


@check
def secrets_applications_and_blobs():
    seen = names(az(f"keyvault secret list --vault-name {EXPECTED['vault']}"))
    expect(seen == sorted(EXPECTED["secrets"]), f"{seen}")
    apps = az("ad app list --all")
    expect(set(EXPECTED["secrets"]) <= {a["displayName"] for a in apps}, "applications")
    account = EXPECTED["account"]
    blobs = az(f"storage blob list --account-name {account} -c {account} --auth-mode login")
    expect(names(blobs) == [".well-known/openid-configuration", "openid/v1/jwks"], f"{names(blobs)}")


az_cli.end(run(sys.argv[2:]))
