"""The Azure CLI against the simulator whose environment is sourced: groups, networks, identities, roles, zones.

    . env-file; target/venv-az/bin/python interop/python/az_check.py public|custom [name ...]
"""

import json
import os
import re
import sys

from az_cli import CLIENT, SECRET, SUBSCRIPTION, TENANT, WAY, az, end, enter, login, names, refused
from checks import check, expect, run
from issuer import Issuer


@check
def logins():
    enter()
    refused(f"login --service-principal -u {CLIENT} --tenant {TENANT} -p wrong", "AADSTS7000215")
    login()
    account = az("account show")
    expect(account["id"] == SUBSCRIPTION and account["tenantId"] == TENANT, f"{account}")
    cloud = "Zaffre" if WAY == "custom" else "AzureCloud"
    expect(account["environmentName"] == cloud, f"{account}")
    token = az("account get-access-token")
    expect(token["tokenType"] == "Bearer" and token["subscription"] == SUBSCRIPTION, "no token")
    expect("eastus" in names(az("account list-locations")), "no locations")


@check
def groups():
    made = az("group create -n g -l eastus --tags a=b")
    expect(made["properties"]["provisioningState"] == "Succeeded" and made["tags"] == {"a": "b"}, f"{made}")
    expect(az("group show -n g")["location"] == "eastus", "show")
    expect({"g", "zaffre-dns"} <= set(names(az("group list"))), "list")
    expect(names(az("group list --tag a=b")) == ["g"], "by tag")
    expect(az("group update -n g --set tags.c=d")["tags"] == {"a": "b", "c": "d"}, "update")
    expect(az("group exists -n g") is True and az("group exists -n absent") is False, "exists")
    refused("group show -n absent", "ResourceGroupNotFound")
    refused("group create -n h -l nowhere", "LocationNotAvailableForResourceGroup")
    lock = az("lock create -n keep --lock-type CanNotDelete -g g")
    expect(lock["level"] == "CanNotDelete", f"{lock}")
    refused("group delete -n g --yes", "ScopeLocked")
    az("lock delete -n keep -g g")
    expect(az("provider show -n Microsoft.Network")["registrationState"] == "Registered", "provider")


@check
def networks():
    made = az("network vnet create -g g -n vn --address-prefixes 10.0.0.0/16 --subnet-name a --subnet-prefixes 10.0.0.0/24")
    vnet = made["newVNet"]
    expect(vnet["provisioningState"] == "Succeeded" and names(vnet["subnets"]) == ["a"], f"{made}")
    expect(az("network vnet show -g g -n vn")["addressSpace"]["addressPrefixes"] == ["10.0.0.0/16"], "show")
    expect(names(az("network vnet list -g g")) == ["vn"] and "vn" in names(az("network vnet list")), "list")
    expect(az("network vnet update -g g -n vn --set tags.x=y")["tags"] == {"x": "y"}, "update")
    refused("network vnet show -g g -n absent", "ResourceNotFound")

    nsg = az("network nsg create -g g -n nsg")["NewNSG"]
    expect(len(nsg["defaultSecurityRules"]) == 6, "six rules of its own")
    rule = "network nsg rule create -g g --nsg-name nsg -n https --priority 100 --access Allow --protocol Tcp --direction Inbound"
    made = az(f"{rule} --source-address-prefixes Internet --destination-port-ranges 443")
    expect(made["priority"] == 100 and made["destinationPortRange"] == "443", f"{made}")
    expect(az("network nsg rule show -g g --nsg-name nsg -n https")["access"] == "Allow", "rule show")
    expect(names(az("network nsg rule list -g g --nsg-name nsg")) == ["https"], "rules")
    az("network nsg rule update -g g --nsg-name nsg -n https --priority 200")
    expect(az("network nsg show -g g -n nsg")["securityRules"][0]["priority"] == 200, "rule update")

    made = az("network vnet subnet create -g g --vnet-name vn -n b --address-prefixes 10.0.1.0/24 --network-security-group nsg")
    expect(made["networkSecurityGroup"]["id"].endswith("/nsg"), f"{made}")
    expect(names(az("network vnet subnet list -g g --vnet-name vn")) == ["a", "b"], "subnets")
    refused("network vnet subnet create -g g --vnet-name vn -n c --address-prefixes 10.0.1.0/25", "NetcfgSubnetRangesOverlap")
    refused("network nsg delete -g g -n nsg", "InUseNetworkSecurityGroupCannotBeDeleted")
    az("network vnet subnet update -g g --vnet-name vn -n b --remove networkSecurityGroup")
    expect(not az("network vnet subnet show -g g --vnet-name vn -n b").get("networkSecurityGroup"), "detached")
    az("network nsg rule delete -g g --nsg-name nsg -n https")
    az("network nsg delete -g g -n nsg")
    expect(az("network nsg list -g g") == [], "nsg gone")

    table = az("network route-table create -g g -n rt")
    expect(table["provisioningState"] == "Succeeded", f"{table}")
    az("network route-table route create -g g --route-table-name rt -n r --address-prefix 0.0.0.0/0 --next-hop-type None")
    expect(names(az("network route-table route list -g g --route-table-name rt")) == ["r"], "routes")
    az("network route-table delete -g g -n rt")


@check
def load_balancers():
    pip = az("network public-ip create -g g -n pip --sku Standard")["publicIp"]
    expect(re.fullmatch(r"\d+\.\d+\.\d+\.\d+", pip["ipAddress"]) and pip["sku"]["name"] == "Standard", f"{pip}")
    expect(az("network public-ip show -g g -n pip")["ipAddress"] == pip["ipAddress"], "show")
    made = az("network lb create -g g -n lb --sku Standard --public-ip-address pip --frontend-ip-name f --backend-pool-name p")
    lb = made["loadBalancer"]
    expect(lb["provisioningState"] == "Succeeded" and lb["frontendIPConfigurations"][0]["name"] == "f", f"{made}")
    refused("network public-ip delete -g g -n pip", "PublicIPAddressCannotBeDeleted")
    az("network lb probe create -g g --lb-name lb -n q --protocol Tcp --port 80")
    az("network lb rule create -g g --lb-name lb -n r --protocol Tcp --frontend-port 80 --backend-port 80 --frontend-ip-name f --backend-pool-name p --probe-name q")
    lb = az("network lb show -g g -n lb")
    expect(names(lb["loadBalancingRules"]) == ["r"] and names(lb["probes"]) == ["q"], f"{lb}")
    expect(lb["frontendIPConfigurations"][0]["loadBalancingRules"][0]["id"].endswith("/r"), "back-reference")
    az("network lb address-pool create -g g --lb-name lb -n p2")
    expect(names(az("network lb address-pool list -g g --lb-name lb")) == ["p", "p2"], "pools")
    expect(names(az("network lb list -g g")) == ["lb"], "list")

    nic = az("network nic create -g g -n nic --vnet-name vn --subnet b")["NewNIC"]
    address = nic["ipConfigurations"][0]["privateIPAddress"]
    expect(address == "10.0.1.4", f"first address of the subnet: {address}")
    refused("network vnet subnet delete -g g --vnet-name vn -n b", "InUseSubnetCannotBeDeleted")
    refused("network vnet delete -g g -n vn", "InUseSubnetCannotBeDeleted")
    pool = "network nic ip-config address-pool"
    az(f"{pool} add -g g --nic-name nic --ip-config-name ipconfig1 --lb-name lb --address-pool p")
    member = az("network lb address-pool show -g g --lb-name lb -n p")["backendIPConfigurations"]
    expect(len(member) == 1 and "/nic/" in member[0]["id"], f"{member}")
    az(f"{pool} remove -g g --nic-name nic --ip-config-name ipconfig1 --lb-name lb --address-pool p")
    expect(names(az("network nic list -g g")) == ["nic"], "nics")
    az("network nic delete -g g -n nic")
    az("network lb delete -g g -n lb")
    az("network public-ip delete -g g -n pip")
    az("network vnet subnet delete -g g --vnet-name vn -n b")
    az("network vnet delete -g g -n vn")
    refused("network nic show -g g -n nic", "ResourceNotFound")
    expect(az("network vnet list -g g") == [], "vnet gone")


@check
def identities_and_roles():
    identity = az("identity create -g g -n id")
    expect(identity["tenantId"] == TENANT and identity["clientId"] != identity["principalId"], f"{identity}")
    expect(az("identity show -g g -n id")["clientId"] == identity["clientId"], "show")
    expect(names(az("identity list -g g")) == ["id"], "list")
    fic = "identity federated-credential"
    made = az(f"{fic} create -g g --identity-name id -n fic --issuer https://issuer.test --subject sa:x --audiences openshift")
    expect(made["audiences"] == ["openshift"] and made["subject"] == "sa:x", f"{made}")
    expect(names(az(f"{fic} list -g g --identity-name id")) == ["fic"], "fics")
    expect(az(f"{fic} update -g g --identity-name id -n fic --subject sa:y")["subject"] == "sa:y", "fic update")
    az(f"{fic} delete -g g --identity-name id -n fic --yes")
    expect(az(f"{fic} list -g g --identity-name id") == [], "fic gone")

    scope = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g"
    who = f"--assignee-object-id {identity['principalId']} --assignee-principal-type ServicePrincipal"
    made = az(f"role assignment create {who} --role Reader --scope {scope}")
    expect(made["principalId"] == identity["principalId"] and made["scope"] == scope, f"{made}")
    found = az(f"role assignment list --scope {scope} --assignee {identity['principalId']}")
    expect([a["roleDefinitionName"] for a in found] == ["Reader"], f"{found}")
    expect(found[0]["principalName"] == identity["clientId"], f"Graph knows its name: {found}")
    az(f"role assignment delete --scope {scope} --assignee {identity['principalId']} --role Reader")
    expect(az(f"role assignment list --scope {scope} --assignee {identity['principalId']}") == [], "gone")
    expect(az("role definition list -n Contributor")[0]["roleName"] == "Contributor", "built in")
    role = {"Name": "Peeker", "Description": "looks", "Actions": ["Microsoft.Network/*/read"], "AssignableScopes": [f"/subscriptions/{SUBSCRIPTION}"]}
    made = az("role definition create --role-definition", json.dumps(role))
    expect(made["roleType"] == "CustomRole" and made["permissions"][0]["actions"] == ["Microsoft.Network/*/read"], f"{made}")
    made["permissions"][0]["actions"].append("Microsoft.Resources/*/read")
    made = az("role definition update --role-definition", json.dumps(made))
    expect(len(made["permissions"][0]["actions"]) == 2, f"{made}")
    expect(len(az("role definition list --custom-role-only")) == 1, "custom")
    az("role definition delete -n Peeker")
    expect(az("role definition list -n Peeker") == [], "role gone")


@check
def zones():
    zone = az("network dns zone create -g g -n z.test")
    expect(len(zone["nameServers"]) == 4 and zone["numberOfRecordSets"] == 2, f"{zone}")
    az("network dns record-set a add-record -g g -z z.test -n www -a 10.0.0.1")
    az("network dns record-set a add-record -g g -z z.test -n www -a 10.0.0.2")
    made = az("network dns record-set a show -g g -z z.test -n www")
    expect([r["ipv4Address"] for r in made["ARecords"]] == ["10.0.0.1", "10.0.0.2"], f"{made}")
    az("network dns record-set cname set-record -g g -z z.test -n alias -c www.z.test")
    az("network dns record-set txt add-record -g g -z z.test -n t -v hello")
    expect(names(az("network dns record-set list -g g -z z.test")) == ["@", "@", "alias", "t", "www"], "records")
    az("network dns record-set a delete -g g -z z.test -n www --yes")
    expect({"z.test", "example.zaffre.test"} <= set(names(az("network dns zone list"))), "zones")
    az("network dns zone delete -g g -n z.test --yes")
    refused("network dns zone show -g g -n z.test", "ResourceNotFound")

    az("network vnet create -g g -n vn2 --address-prefixes 10.1.0.0/16")
    zone = az("network private-dns zone create -g g -n p.test")
    expect(zone["numberOfRecordSets"] == 1 and zone["provisioningState"] == "Succeeded", f"{zone}")
    link = az("network private-dns link vnet create -g g -z p.test -n l -v vn2 -e false")
    expect(link["virtualNetworkLinkState"] == "Completed", f"{link}")
    expect(names(az("network private-dns link vnet list -g g -z p.test")) == ["l"], "links")
    az("network private-dns record-set a add-record -g g -z p.test -n api -a 10.1.0.4")
    made = az("network private-dns record-set a show -g g -z p.test -n api")
    expect(made["aRecords"][0]["ipv4Address"] == "10.1.0.4" and made["fqdn"] == "api.p.test.", f"{made}")
    expect(names(az("network private-dns record-set a list -g g -z p.test")) == ["api"], "records")
    refused("network private-dns zone delete -g g -n p.test --yes", "CannotDeleteResource")
    az("network private-dns record-set a delete -g g -z p.test -n api --yes")
    az("network private-dns link vnet delete -g g -z p.test -n l --yes")
    az("network private-dns zone delete -g g -n p.test --yes")
    expect(az("network private-dns zone list -g g") == [], "zone gone")
    az("network vnet delete -g g -n vn2")


@check
def certificates():
    """An application of its own, made with az, that logs in with the certificate az made for it."""
    scope = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g"
    made = az(f"ad sp create-for-rbac -n robot-{WAY} --role Reader --scopes {scope} --create-cert")
    try:
        az(f"login --service-principal -u {made['appId']} --tenant {TENANT} --certificate {made['fileWithCertAndPrivateKey']}")
        expect(az("group show -n g")["name"] == "g", "reads")
        refused("group update -n g --set tags.z=z", "AuthorizationFailed")
        refused("group show -n zaffre-dns", "AuthorizationFailed")
    finally:
        os.unlink(made["fileWithCertAndPrivateKey"])
        login()
    az(f"role assignment delete --assignee {made['appId']} --scope {scope}")
    az(f"ad app delete --id {made['appId']}")


@check
def federated():
    """Key pair, key set over HTTPS, identity, federated credential, exchange, call; then each way it must fail."""
    issuer = Issuer()
    identity = az("identity create -g g -n workload")
    az(f"identity federated-credential create -g g --identity-name workload -n fic --issuer {issuer.url} --subject sa:ns:robot --audiences api://AzureADTokenExchange")
    scope = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g"
    az(f"role assignment create --assignee-object-id {identity['principalId']} --assignee-principal-type ServicePrincipal --role Reader --scope {scope}")
    enter = f"login --service-principal -u {identity['clientId']} --tenant {TENANT} --federated-token"
    flaws = [
        ("AADSTS700211", issuer.token("sa:ns:robot", issuer="https://elsewhere.test")),
        ("AADSTS700212", issuer.token("sa:ns:robot", audience="elsewhere")),
        ("AADSTS700213", issuer.token("sa:ns:other")),
        ("AADSTS700024", issuer.token("sa:ns:robot", expires=-600)),
    ]
    for code, token in flaws:
        refused(f"{enter} {token}", code)
    old = issuer.token("sa:ns:robot")
    issuer.rotate("second")
    refused(f"{enter} {old}", "AADSTS7000")
    az(f"{enter} {issuer.token('sa:ns:robot')}")
    expect(az("account show")["user"]["name"] == identity["clientId"], "who am I")
    expect(az("group show -n g")["name"] == "g", "reads")
    refused("network vnet create -g g -n no", "AuthorizationFailed")
    login()
    issuer.close()


@check
def gone():
    az("group delete -n g --yes")
    refused("group show -n g", "ResourceGroupNotFound")
    expect(names(az("group list")) == ["zaffre-dns"], "only the seed is left")


end(run(sys.argv[2:]))
