// Azure's SDK for Go against the simulator whose environment is sourced, twice: as cloud.AzurePublic, which the proxy
// and the CA bundle of the environment lead to the simulator, and as a cloud of its own, without a proxy. Prints
// `ok <name>` per check and exits 1 if one fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// world is one way in, and a resource group to work in.
type world struct {
	way          string
	ctx          context.Context
	subscription string
	group        string
	credential   azcore.TokenCredential
	options      *arm.ClientOptions
}

func env(name string) string {
	value := os.Getenv(name)
	if value == "" {
		fail("%s is not set: source the file of `zaffre serve azure --env-out`", name)
	}
	return value
}

func fail(format string, arguments ...any) {
	fmt.Printf("FAILED "+format+"\n", arguments...)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func expect(condition bool, format string, arguments ...any) {
	if !condition {
		panic(fmt.Errorf(format, arguments...))
	}
}

// refused wants exactly this answer.
func refused(err error, status int, code string) {
	var response *azcore.ResponseError
	expect(errors.As(err, &response), "want %d %s, got %v", status, code, err)
	expect(response.StatusCode == status && response.ErrorCode == code, "want %d %s, got %d %s", status, code, response.StatusCode, response.ErrorCode)
}

func newWorld(way string, configuration cloud.Configuration, client *http.Client) *world {
	options := azcore.ClientOptions{Cloud: configuration}
	if client != nil {
		options.Transport = client
	}
	credential := must(azidentity.NewClientSecretCredential(env("AZURE_TENANT_ID"), env("AZURE_CLIENT_ID"), env("AZURE_CLIENT_SECRET"),
		&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: way == "custom"}))
	return &world{
		way:          way,
		ctx:          context.Background(),
		subscription: env("AZURE_SUBSCRIPTION_ID"),
		group:        fmt.Sprintf("go-%s-%d", way, os.Getpid()),
		credential:   credential,
		options:      &arm.ClientOptions{ClientOptions: options},
	}
}

func main() {
	url := env("ZAFFRE_AZURE_ARM_URL")
	custom := cloud.Configuration{
		ActiveDirectoryAuthorityHost: env("ZAFFRE_AZURE_LOGIN_URL"),
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: url, Audience: "https://management.azure.com"},
		},
	}
	direct := http.DefaultTransport.(*http.Transport).Clone()
	direct.Proxy = nil
	worlds := []*world{
		newWorld("public", cloud.AzurePublic, nil),
		newWorld("custom", custom, &http.Client{Transport: direct, Timeout: time.Minute}),
	}
	for _, w := range worlds {
		for _, check := range checks {
			run(w, check)
		}
	}
}

func run(w *world, check check) {
	defer func() {
		if err := recover(); err != nil {
			fail("%s %s: %v", w.way, check.name, err)
		}
	}()
	check.run(w)
	fmt.Printf("ok %s %s\n", w.way, check.name)
}
