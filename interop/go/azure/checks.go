package main

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/dns/armdns"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/msi/armmsi"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v7"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/privatedns/armprivatedns"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources"
)

type check struct {
	name string
	run  func(*world)
}

// In order: the first makes the group of the others, the last removes it.
var checks = []check{
	{"group", group},
	{"wrong secret", wrongSecret},
	{"network", network},
	{"load balancer and interface", loadBalancer},
	{"identity and role", identityAndRole},
	{"zones", zones},
	{"private zones", privateZones},
	{"machines and disks", machines},
	{"sizes and usage", sizes},
	{"blobs", blobs},
	{"vaults", vaults},
	{"registries", registries},
	{"group gone", groupGone},
}

const place = "westus2"

// What the SDK allows at least; the simulator asks for less, and is heard.
var poll = &runtime.PollUntilDoneOptions{Frequency: time.Second}

func done[T any](w *world, poller *runtime.Poller[T], err error) T {
	return must(must(poller, err).PollUntilDone(w.ctx, poll))
}

func all[T, P any](w *world, pager *runtime.Pager[P], items func(P) []T) []T {
	var found []T
	for pager.More() {
		found = append(found, items(must(pager.NextPage(w.ctx)))...)
	}
	return found
}

func guid() string {
	b := make([]byte, 16)
	must(rand.Read(b))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func group(w *world) {
	client := must(armresources.NewResourceGroupsClient(w.subscription, w.credential, w.options))
	made := must(client.CreateOrUpdate(w.ctx, w.group, armresources.ResourceGroup{Location: to.Ptr(place)}, nil))
	expect(*made.Properties.ProvisioningState == "Succeeded", "%v", *made.Properties.ProvisioningState)
	expect(must(client.CheckExistence(w.ctx, w.group, nil)).Success, "exists")
	groups := all(w, client.NewListPager(nil), func(p armresources.ResourceGroupsClientListResponse) []*armresources.ResourceGroup { return p.Value })
	found := false
	for _, g := range groups {
		found = found || *g.Name == w.group
	}
	expect(found, "not in the list")
	_, err := client.Get(w.ctx, "absent", nil)
	refused(err, 404, "ResourceGroupNotFound")
}

func wrongSecret(w *world) {
	options := &azidentity.ClientSecretCredentialOptions{ClientOptions: w.options.ClientOptions, DisableInstanceDiscovery: w.way == "custom"}
	credential := must(azidentity.NewClientSecretCredential(env("AZURE_TENANT_ID"), env("AZURE_CLIENT_ID"), "wrong", options))
	_, err := credential.GetToken(w.ctx, policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}})
	expect(err != nil && strings.Contains(err.Error(), "AADSTS7000215"), "%v", err)
}

func network(w *world) {
	networks := must(armnetwork.NewVirtualNetworksClient(w.subscription, w.credential, w.options))
	body := armnetwork.VirtualNetwork{Location: to.Ptr(place), Properties: &armnetwork.VirtualNetworkPropertiesFormat{
		AddressSpace: &armnetwork.AddressSpace{AddressPrefixes: []*string{to.Ptr("10.0.0.0/16")}},
		Subnets:      []*armnetwork.Subnet{{Name: to.Ptr("a"), Properties: &armnetwork.SubnetPropertiesFormat{AddressPrefix: to.Ptr("10.0.0.0/24")}}},
	}}
	poller, err := networks.BeginCreateOrUpdate(w.ctx, w.group, "vn", body, nil)
	// As operators do: the poller's token is kept, and another process goes on with it.
	token := must(must(poller, err).ResumeToken())
	resumed, err := networks.BeginCreateOrUpdate(w.ctx, w.group, "vn", body, &armnetwork.VirtualNetworksClientBeginCreateOrUpdateOptions{ResumeToken: token})
	made := done(w, resumed, err)
	expect(*made.Properties.ProvisioningState == armnetwork.ProvisioningStateSucceeded && len(made.Properties.Subnets) == 1, "%+v", made)

	groups := must(armnetwork.NewSecurityGroupsClient(w.subscription, w.credential, w.options))
	p2, err := groups.BeginCreateOrUpdate(w.ctx, w.group, "nsg", armnetwork.SecurityGroup{Location: to.Ptr(place)}, nil)
	nsg := done(w, p2, err)
	expect(len(nsg.Properties.DefaultSecurityRules) == 6, "six default rules")
	subnets := must(armnetwork.NewSubnetsClient(w.subscription, w.credential, w.options))
	p3, err := subnets.BeginCreateOrUpdate(w.ctx, w.group, "vn", "b", armnetwork.Subnet{Properties: &armnetwork.SubnetPropertiesFormat{
		AddressPrefix: to.Ptr("10.0.1.0/24"), NetworkSecurityGroup: &armnetwork.SecurityGroup{ID: nsg.ID}}}, nil)
	done(w, p3, err)
	found := all(w, subnets.NewListPager(w.group, "vn", nil), func(p armnetwork.SubnetsClientListResponse) []*armnetwork.Subnet { return p.Value })
	expect(len(found) == 2, "%d subnets", len(found))
	_, err = groups.BeginDelete(w.ctx, w.group, "nsg", nil)
	refused(err, 400, "InUseNetworkSecurityGroupCannotBeDeleted")
	_, err = networks.Get(w.ctx, w.group, "absent", nil)
	refused(err, 404, "ResourceNotFound")
}

func loadBalancer(w *world) {
	addresses := must(armnetwork.NewPublicIPAddressesClient(w.subscription, w.credential, w.options))
	p1, err := addresses.BeginCreateOrUpdate(w.ctx, w.group, "pip", armnetwork.PublicIPAddress{Location: to.Ptr(place),
		SKU:        &armnetwork.PublicIPAddressSKU{Name: to.Ptr(armnetwork.PublicIPAddressSKUNameStandard)},
		Properties: &armnetwork.PublicIPAddressPropertiesFormat{PublicIPAllocationMethod: to.Ptr(armnetwork.IPAllocationMethodStatic)}}, nil)
	address := done(w, p1, err)
	expect(address.Properties.IPAddress != nil, "no address")
	balancers := must(armnetwork.NewLoadBalancersClient(w.subscription, w.credential, w.options))
	p2, err := balancers.BeginCreateOrUpdate(w.ctx, w.group, "lb", armnetwork.LoadBalancer{Location: to.Ptr(place),
		SKU: &armnetwork.LoadBalancerSKU{Name: to.Ptr(armnetwork.LoadBalancerSKUNameStandard)},
		Properties: &armnetwork.LoadBalancerPropertiesFormat{
			FrontendIPConfigurations: []*armnetwork.FrontendIPConfiguration{{Name: to.Ptr("f"), Properties: &armnetwork.FrontendIPConfigurationPropertiesFormat{PublicIPAddress: &armnetwork.PublicIPAddress{ID: address.ID}}}},
			BackendAddressPools:      []*armnetwork.BackendAddressPool{{Name: to.Ptr("p")}},
		}}, nil)
	balancer := done(w, p2, err)
	_, err = addresses.BeginDelete(w.ctx, w.group, "pip", nil)
	refused(err, 400, "PublicIPAddressCannotBeDeleted")
	subnets := must(armnetwork.NewSubnetsClient(w.subscription, w.credential, w.options))
	subnet := must(subnets.Get(w.ctx, w.group, "vn", "b", nil))
	interfaces := must(armnetwork.NewInterfacesClient(w.subscription, w.credential, w.options))
	p3, err := interfaces.BeginCreateOrUpdate(w.ctx, w.group, "nic", armnetwork.Interface{Location: to.Ptr(place), Properties: &armnetwork.InterfacePropertiesFormat{
		IPConfigurations: []*armnetwork.InterfaceIPConfiguration{{Name: to.Ptr("c"), Properties: &armnetwork.InterfaceIPConfigurationPropertiesFormat{
			Subnet:                          &armnetwork.Subnet{ID: subnet.ID},
			LoadBalancerBackendAddressPools: []*armnetwork.BackendAddressPool{{ID: balancer.Properties.BackendAddressPools[0].ID}},
		}}}}}, nil)
	nic := done(w, p3, err)
	expect(*nic.Properties.IPConfigurations[0].Properties.PrivateIPAddress == "10.0.1.4", "first usable address")
	pool := must(balancers.Get(w.ctx, w.group, "lb", nil)).Properties.BackendAddressPools[0]
	expect(len(pool.Properties.BackendIPConfigurations) == 1, "the pool knows its member")
}

func identityAndRole(w *world) {
	identities := must(armmsi.NewUserAssignedIdentitiesClient(w.subscription, w.credential, w.options))
	identity := must(identities.CreateOrUpdate(w.ctx, w.group, "id", armmsi.Identity{Location: to.Ptr(place)}, nil))
	federated := must(armmsi.NewFederatedIdentityCredentialsClient(w.subscription, w.credential, w.options))
	fic := armmsi.FederatedIdentityCredential{Properties: &armmsi.FederatedIdentityCredentialProperties{
		Issuer: to.Ptr("https://issuer.test/"), Subject: to.Ptr("system:serviceaccount:a:b"), Audiences: []*string{to.Ptr("openshift")}}}
	must(federated.CreateOrUpdate(w.ctx, w.group, "id", "fic", fic, nil))
	found := all(w, federated.NewListPager(w.group, "id", nil), func(p armmsi.FederatedIdentityCredentialsClientListResponse) []*armmsi.FederatedIdentityCredential {
		return p.Value
	})
	expect(len(found) == 1 && *found[0].Properties.Audiences[0] == "openshift", "%v", found)

	scope := fmt.Sprintf("/subscriptions/%s/resourceGroups/%s", w.subscription, w.group)
	definitions := must(armauthorization.NewRoleDefinitionsClient(w.credential, w.options))
	roles := all(w, definitions.NewListPager(scope, &armauthorization.RoleDefinitionsClientListOptions{Filter: to.Ptr("roleName eq 'Reader'")}),
		func(p armauthorization.RoleDefinitionsClientListResponse) []*armauthorization.RoleDefinition {
			return p.Value
		})
	expect(len(roles) == 1, "%d roles are called Reader", len(roles))
	assignments := must(armauthorization.NewRoleAssignmentsClient(w.subscription, w.credential, w.options))
	body := armauthorization.RoleAssignmentCreateParameters{Properties: &armauthorization.RoleAssignmentProperties{
		PrincipalID: identity.Properties.PrincipalID, RoleDefinitionID: roles[0].ID, PrincipalType: to.Ptr(armauthorization.PrincipalTypeServicePrincipal)}}
	name := guid()
	must(assignments.Create(w.ctx, scope, name, body, nil))
	_, err := assignments.Create(w.ctx, scope, guid(), body, nil)
	refused(err, 409, "RoleAssignmentExists")
	must(assignments.Delete(w.ctx, scope, name, nil))
}

func zones(w *world) {
	client := must(armdns.NewZonesClient(w.subscription, w.credential, w.options))
	zone := must(client.CreateOrUpdate(w.ctx, w.group, "go.test", armdns.Zone{Location: to.Ptr("global")}, nil))
	expect(len(zone.Properties.NameServers) == 4, "four name servers")
	records := must(armdns.NewRecordSetsClient(w.subscription, w.credential, w.options))
	body := armdns.RecordSet{Properties: &armdns.RecordSetProperties{TTL: to.Ptr[int64](60), ARecords: []*armdns.ARecord{{IPv4Address: to.Ptr("10.0.0.1")}}}}
	made := must(records.CreateOrUpdate(w.ctx, w.group, "go.test", "www", armdns.RecordTypeA, body, nil))
	_, err := records.CreateOrUpdate(w.ctx, w.group, "go.test", "www", armdns.RecordTypeA, body, &armdns.RecordSetsClientCreateOrUpdateOptions{IfMatch: to.Ptr("stale")})
	refused(err, 412, "PreconditionFailed")
	must(records.Delete(w.ctx, w.group, "go.test", "www", armdns.RecordTypeA, &armdns.RecordSetsClientDeleteOptions{IfMatch: made.Etag}))
	poller, err := client.BeginDelete(w.ctx, w.group, "go.test", nil)
	done(w, poller, err)
}

func privateZones(w *world) {
	client := must(armprivatedns.NewPrivateZonesClient(w.subscription, w.credential, w.options))
	p1, err := client.BeginCreateOrUpdate(w.ctx, w.group, "go.internal", armprivatedns.PrivateZone{Location: to.Ptr("global")}, nil)
	done(w, p1, err)
	networks := must(armnetwork.NewVirtualNetworksClient(w.subscription, w.credential, w.options))
	vnet := must(networks.Get(w.ctx, w.group, "vn", nil))
	links := must(armprivatedns.NewVirtualNetworkLinksClient(w.subscription, w.credential, w.options))
	body := armprivatedns.VirtualNetworkLink{Location: to.Ptr("global"), Properties: &armprivatedns.VirtualNetworkLinkProperties{
		RegistrationEnabled: to.Ptr(false), VirtualNetwork: &armprivatedns.SubResource{ID: vnet.ID}}}
	p2, err := links.BeginCreateOrUpdate(w.ctx, w.group, "go.internal", "l", body, nil)
	link := done(w, p2, err)
	expect(*link.Properties.VirtualNetworkLinkState == armprivatedns.VirtualNetworkLinkStateCompleted, "%+v", link)
	records := must(armprivatedns.NewRecordSetsClient(w.subscription, w.credential, w.options))
	record := armprivatedns.RecordSet{Properties: &armprivatedns.RecordSetProperties{TTL: to.Ptr[int64](60), ARecords: []*armprivatedns.ARecord{{IPv4Address: to.Ptr("10.0.0.4")}}}}
	must(records.CreateOrUpdate(w.ctx, w.group, "go.internal", armprivatedns.RecordTypeA, "api", record, nil))
	_, err = client.BeginDelete(w.ctx, w.group, "go.internal", nil)
	refused(err, 409, "CannotDeleteResource")
	p3, err := links.BeginDelete(w.ctx, w.group, "go.internal", "l", nil)
	done(w, p3, err)
	p4, err := client.BeginDelete(w.ctx, w.group, "go.internal", nil)
	done(w, p4, err)
}

func groupGone(w *world) {
	client := must(armresources.NewResourceGroupsClient(w.subscription, w.credential, w.options))
	poller, err := client.BeginDelete(w.ctx, w.group, nil)
	done(w, poller, err)
	expect(!must(client.CheckExistence(w.ctx, w.group, nil)).Success, "still there")
}
