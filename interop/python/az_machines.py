"""The Azure CLI's machines, disks and private links.

    . env-file; target/venv-az/bin/python interop/python/az_machines.py public|custom [name ...]
"""

import sys

import az_cli
from az_cli import az, names, refused
from checks import check, expect, run

IMAGE = "Debian:debian-12:12-gen2:latest"


@check
def begin():
    az_cli.enter()
    az_cli.login()
    az("group create -n m -l westus2")
    az("network vnet create -g m -n v -l westus2 --address-prefixes 10.0.0.0/16 --subnet-name s --subnet-prefixes 10.0.0.0/24")
    az("network nic create -g m -n n --vnet-name v --subnet s")


@check
def sizes_and_images():
    skus = az("vm list-skus -l westus2 --resource-type virtualMachines --all")
    expect(any(s["name"] == "Standard_D4s_v5" for s in skus), "no D4s_v5")
    expect("azureopenshift" in names(az("vm image list-publishers -l westus2")), "no publisher")
    expect(names(az("vm image list-offers -l westus2 -p azureopenshift")) == ["aro4"], "offers")
    expect("420-v2" in names(az("vm image list-skus -l westus2 -p azureopenshift -f aro4")), "skus")
    versions = az("vm image list -l westus2 -p Debian --all")
    expect(any(v["urn"].startswith("Debian:debian-12:12-gen2:") for v in versions), f"{versions}")
    usage = az("vm list-usage -l westus2")
    expect(any(u["name"]["value"] == "cores" for u in usage), "no usage")


@check
def disks():
    disk = az("disk create -g m -n d --size-gb 64 --sku Premium_LRS")
    expect(disk["diskState"] == "Unattached" and disk["tier"] == "P6", f"{disk}")
    expect(az("disk update -g m -n d --size-gb 128")["diskSizeGB"] == 128, "not grown")
    refused("disk update -g m -n d --size-gb 32", "OperationNotAllowed")
    az("snapshot create -g m -n snap --source d")
    expect(names(az("disk list -g m")) == ["d"], "disks")


@check
def machine():
    vm = az(
        f"vm create -g m -n vm --nics n --image {IMAGE} --size Standard_D4s_v5 --admin-username core --admin-password Zaffre-12345 "
        "--authentication-type password --assign-identity [system] --os-disk-delete-option Delete --nic-delete-option Delete --custom-data hello"
    )
    expect(vm["powerState"] == "VM running", f"{vm}")
    shown = az("vm show -g m -n vm -d")
    expect(shown["privateIps"] == "10.0.0.4" and shown["identity"]["principalId"], f"{shown}")
    expect("customData" not in (shown["osProfile"] or {}) or shown["osProfile"]["customData"] is None, "custom data is shown")
    az("vm disk attach -g m --vm-name vm -n d")
    expect(az("disk show -g m -n d")["diskState"] == "Attached", "not attached")
    refused("disk delete -g m -n d --yes", "OperationNotAllowed")
    refused("network nic delete -g m -n n", "NicInUse")
    az("vm deallocate -g m -n vm")
    expect(az("vm get-instance-view -g m -n vm")["instanceView"]["statuses"][-1]["code"] == "PowerState/deallocated", "still there")
    az("vm start -g m -n vm")
    az("vm restart -g m -n vm")
    expect(names(az("vm list -g m")) == ["vm"] and len(az("vm list -d")) == 1, "list")
    az("vm delete -g m -n vm --yes")
    expect(names(az("disk list -g m")) == ["d"], "the machine's own disk is gone, the other is not")
    refused("network nic show -g m -n n", "ResourceNotFound")


@check
def private_link():
    az("network vnet subnet create -g m --vnet-name v -n nat --address-prefixes 10.0.1.0/24 --private-link-service-network-policies Disabled")
    az("network lb create -g m -n lb --sku Standard --vnet-name v --subnet s --frontend-ip-name f")
    pls = az("network private-link-service create -g m -n pls --vnet-name v --subnet nat --lb-name lb --lb-frontend-ip-configs f -l westus2")
    pe = az(
        f"network private-endpoint create -g m -n pe --vnet-name v --subnet s --connection-name c --manual-request true "
        f"--private-connection-resource-id {pls['alias']}"
    )
    state = pe["manualPrivateLinkServiceConnections"][0]["privateLinkServiceConnectionState"]["status"]
    expect(state == "Pending", state)
    name = az("network private-link-service show -g m -n pls")["privateEndpointConnections"][0]["name"]
    az(f"network private-link-service connection update -g m --service-name pls -n {name} --connection-status Approved")
    pe = az("network private-endpoint show -g m -n pe")
    expect(pe["manualPrivateLinkServiceConnections"][0]["privateLinkServiceConnectionState"]["status"] == "Approved", "not approved")
    refused("network private-link-service delete -g m -n pls", "PrivateLinkServiceHasConnections")
    az("network private-endpoint delete -g m -n pe")
    az("network private-link-service delete -g m -n pls")


@check
def end():
    az("group delete -n m --yes")
    refused("group show -n m", "ResourceGroupNotFound")


az_cli.end(run(sys.argv[2:]))
