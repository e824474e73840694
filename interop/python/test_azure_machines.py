"""Machines with the Azure SDK for Python, against the simulator whose environment is sourced.

Prints `ok <name>` per check and exits 1 at the end if any failed. The clients are for public Azure; proxy and CA bundle
of the environment lead them to the simulator.

    . env-file; target/venv-azure/bin/python interop/python/test_azure_machines.py [name ...]
"""

import os
import sys
import urllib.request

from azure.identity import ClientSecretCredential, ManagedIdentityCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient

from checks import check, expect, refused, run

SUBSCRIPTION = os.environ["AZURE_SUBSCRIPTION_ID"]
WHO = ClientSecretCredential(os.environ["AZURE_TENANT_ID"], os.environ["AZURE_CLIENT_ID"], os.environ["AZURE_CLIENT_SECRET"])
GROUP, PLACE = "py-machines", "westus2"
COMPUTE = ComputeManagementClient(WHO, SUBSCRIPTION)
NETWORK = NetworkManagementClient(WHO, SUBSCRIPTION)
RESOURCES = ResourceManagementClient(WHO, SUBSCRIPTION)


def nic(name):
    subnet = NETWORK.subnets.get(GROUP, "v", "s")
    body = {"location": PLACE, "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": subnet.id}}}]}}
    return NETWORK.network_interfaces.begin_create_or_update(GROUP, name, body).result()


def machine(of):
    return {
        "location": PLACE,
        "identity": {"type": "SystemAssigned"},
        "properties": {
            "hardwareProfile": {"vmSize": "Standard_D4s_v5"},
            "storageProfile": {"imageReference": {"publisher": "azureopenshift", "offer": "aro4", "sku": "420-v2", "version": "latest"}},
            "osProfile": {"computerName": "m", "adminUsername": "core", "customData": "aWduaXRpb24="},
            "networkProfile": {"networkInterfaces": [{"id": of.id}]},
        },
    }


@check
def begin():
    RESOURCES.resource_groups.create_or_update(GROUP, {"location": PLACE})
    body = {"location": PLACE, "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24"}}]}}
    NETWORK.virtual_networks.begin_create_or_update(GROUP, "v", body).result()


@check
def machines():
    vm = COMPUTE.virtual_machines.begin_create_or_update(GROUP, "m", machine(nic("n"))).result()
    expect(vm.provisioning_state == "Succeeded" and vm.identity.principal_id, f"{vm}")
    expect(vm.storage_profile.os_disk.managed_disk.id, "no disk")
    view = COMPUTE.virtual_machines.get(GROUP, "m", expand="instanceView").instance_view
    expect(view.statuses[-1].code == "PowerState/running", f"{view}")
    COMPUTE.virtual_machines.begin_deallocate(GROUP, "m").result()
    COMPUTE.virtual_machines.begin_start(GROUP, "m").result()
    expect([v.name for v in COMPUTE.virtual_machines.list(GROUP)] == ["m"], "list")
    refused(lambda: COMPUTE.virtual_machines.begin_create_or_update(GROUP, "x", machine(NETWORK.network_interfaces.get(GROUP, "n"))), 400, "NicInUse")


@check
def tokens():
    """The machine's identity, by the way that Python knows for another metadata host."""
    vm = COMPUTE.virtual_machines.get(GROUP, "m")
    base = f"{os.environ['ZAFFRE_AZURE_IMDS_URL']}/vm/{vm.vm_id}"
    os.environ["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = base
    mine = ResourceManagementClient(ManagedIdentityCredential(), SUBSCRIPTION)
    refused(lambda: mine.resource_groups.get(GROUP), 403, "AuthorizationFailed")
    request = urllib.request.Request(f"{base}/metadata/instance/compute/name?api-version=2021-02-01&format=text", headers={"Metadata": "true"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    expect(opener.open(request).read() == b"m", "another machine")


@check
def disks():
    body = {"location": PLACE, "sku": {"name": "Premium_LRS"}, "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 64}}
    disk = COMPUTE.disks.begin_create_or_update(GROUP, "d", body).result()
    expect(disk.disk_state == "Unattached", f"{disk}")
    access = COMPUTE.disks.begin_grant_access(GROUP, "d", {"access": "Read", "durationInSeconds": 60}).result()
    expect(access.access_sas.startswith("https://"), f"{access}")
    COMPUTE.disks.begin_revoke_access(GROUP, "d").result()
    COMPUTE.disks.begin_delete(GROUP, "d").result()


@check
def catalogue():
    skus = {s.name: s for s in COMPUTE.resource_skus.list(filter=f"location eq '{PLACE}'")}
    got = {c.name: c.value for c in skus["Standard_D4s_v5"].capabilities}
    expect(got["vCPUs"] == "4" and got["MemoryGB"] == "16", f"{got}")
    expect(any(u.name.value == "cores" and u.current_value == 4 for u in COMPUTE.usage.list(PLACE)), "usage")
    expect(COMPUTE.virtual_machine_images.list(PLACE, "azureopenshift", "aro4", "420-v2"), "versions")


@check
def end():
    COMPUTE.virtual_machines.begin_delete(GROUP, "m").result()
    RESOURCES.resource_groups.begin_delete(GROUP).result()


sys.exit(1 if run(sys.argv[1:]) else 0)
