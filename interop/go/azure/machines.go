package main

import (
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v7"
)

func power(w *world, client *armcompute.VirtualMachinesClient, name string) string {
	view := must(client.InstanceView(w.ctx, w.group, name, nil))
	for _, status := range view.Statuses {
		if state, found := strings.CutPrefix(*status.Code, "PowerState/"); found {
			return state
		}
	}
	return ""
}

func machine(nic *string) armcompute.VirtualMachine {
	return armcompute.VirtualMachine{
		Location: to.Ptr(place),
		Identity: &armcompute.VirtualMachineIdentity{Type: to.Ptr(armcompute.ResourceIdentityTypeSystemAssigned)},
		Properties: &armcompute.VirtualMachineProperties{
			HardwareProfile: &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes("Standard_D2s_v5"))},
			StorageProfile: &armcompute.StorageProfile{
				ImageReference: &armcompute.ImageReference{Publisher: to.Ptr("Canonical"), Offer: to.Ptr("ubuntu-24_04-lts"), SKU: to.Ptr("server"), Version: to.Ptr("latest")},
			},
			OSProfile:      &armcompute.OSProfile{ComputerName: to.Ptr("m"), AdminUsername: to.Ptr("zaffre"), AdminPassword: to.Ptr("Zaffre-12345"), CustomData: to.Ptr("aGVsbG8=")},
			NetworkProfile: &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{ID: nic}}},
		},
	}
}

func machines(w *world) {
	subnet := must(must(armnetwork.NewSubnetsClient(w.subscription, w.credential, w.options)).Get(w.ctx, w.group, "vn", "a", nil))
	interfaces := must(armnetwork.NewInterfacesClient(w.subscription, w.credential, w.options))
	p1, err := interfaces.BeginCreateOrUpdate(w.ctx, w.group, "vm-nic", armnetwork.Interface{Location: to.Ptr(place), Properties: &armnetwork.InterfacePropertiesFormat{
		IPConfigurations: []*armnetwork.InterfaceIPConfiguration{{Name: to.Ptr("c"), Properties: &armnetwork.InterfaceIPConfigurationPropertiesFormat{Subnet: &armnetwork.Subnet{ID: subnet.ID}}}}}}, nil)
	nic := done(w, p1, err)
	client := must(armcompute.NewVirtualMachinesClient(w.subscription, w.credential, w.options))
	p2, err := client.BeginCreateOrUpdate(w.ctx, w.group, "vm", machine(nic.ID), nil)
	made := done(w, p2, err)
	expect(*made.Properties.ProvisioningState == "Succeeded" && made.Identity.PrincipalID != nil, "%+v", made)
	expect(made.Properties.OSProfile.CustomData == nil, "custom data is shown")
	expect(power(w, client, "vm") == "running", "%s", power(w, client, "vm"))
	p3, err := client.BeginDeallocate(w.ctx, w.group, "vm", nil)
	done(w, p3, err)
	expect(power(w, client, "vm") == "deallocated", "%s", power(w, client, "vm"))
	p4, err := client.BeginStart(w.ctx, w.group, "vm", nil)
	done(w, p4, err)
	p5, err := client.BeginRestart(w.ctx, w.group, "vm", nil)
	done(w, p5, err)
	_, err = interfaces.BeginDelete(w.ctx, w.group, "vm-nic", nil)
	refused(err, 400, "NicInUse")
	disks(w, client)
	p6, err := client.BeginDelete(w.ctx, w.group, "vm", nil)
	done(w, p6, err)
	_, err = client.Get(w.ctx, w.group, "vm", nil)
	refused(err, 404, "ResourceNotFound")
}

func disks(w *world, machines *armcompute.VirtualMachinesClient) {
	client := must(armcompute.NewDisksClient(w.subscription, w.credential, w.options))
	p1, err := client.BeginCreateOrUpdate(w.ctx, w.group, "data", armcompute.Disk{Location: to.Ptr(place), SKU: &armcompute.DiskSKU{Name: to.Ptr(armcompute.DiskStorageAccountTypesPremiumLRS)},
		Properties: &armcompute.DiskProperties{DiskSizeGB: to.Ptr[int32](32), CreationData: &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionEmpty)}}}, nil)
	disk := done(w, p1, err)
	expect(*disk.Properties.DiskState == armcompute.DiskStateUnattached, "%v", *disk.Properties.DiskState)
	attach := armcompute.VirtualMachineUpdate{Properties: &armcompute.VirtualMachineProperties{StorageProfile: &armcompute.StorageProfile{DataDisks: []*armcompute.DataDisk{
		{Lun: to.Ptr[int32](0), CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesAttach), ManagedDisk: &armcompute.ManagedDiskParameters{ID: disk.ID}}}}}}
	p2, err := machines.BeginUpdate(w.ctx, w.group, "vm", attach, nil)
	done(w, p2, err)
	expect(*must(client.Get(w.ctx, w.group, "data", nil)).Properties.DiskState == armcompute.DiskStateAttached, "not attached")
	_, err = client.BeginDelete(w.ctx, w.group, "data", nil)
	expect(err != nil, "an attached disk was deleted")
	snapshots := must(armcompute.NewSnapshotsClient(w.subscription, w.credential, w.options))
	p3, err := snapshots.BeginCreateOrUpdate(w.ctx, w.group, "snap", armcompute.Snapshot{Location: to.Ptr(place),
		Properties: &armcompute.SnapshotProperties{CreationData: &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionCopy), SourceResourceID: disk.ID}}}, nil)
	done(w, p3, err)
}

func sizes(w *world) {
	client := must(armcompute.NewResourceSKUsClient(w.subscription, w.credential, w.options))
	filter := &armcompute.ResourceSKUsClientListOptions{Filter: to.Ptr(fmt.Sprintf("location eq '%s'", place))}
	found := all(w, client.NewListPager(filter), func(p armcompute.ResourceSKUsClientListResponse) []*armcompute.ResourceSKU { return p.Value })
	var cores string
	for _, sku := range found {
		if *sku.Name == "Standard_D2s_v5" {
			for _, c := range sku.Capabilities {
				if *c.Name == "vCPUs" {
					cores = *c.Value
				}
			}
		}
	}
	expect(cores == "2", "%d sizes, D2s_v5 has %q cores", len(found), cores)
	usage := must(armcompute.NewUsageClient(w.subscription, w.credential, w.options))
	used := all(w, usage.NewListPager(place, nil), func(p armcompute.UsageClientListResponse) []*armcompute.Usage { return p.Value })
	expect(len(used) > 3, "%d usages", len(used))
}
