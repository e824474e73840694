package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/containers/azcontainerregistry"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/storage/armstorage"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azcertificates"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

const (
	vaultAdministrator = "00482a5a-887f-4fb3-b363-3b7fe8e74483"
	blobContributor    = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
	acrPush            = "8311e382-0749-4cb8-b61a-304f252e45ec"
)

// Data planes have hosts of their own, which only the proxy leads to.
func (w *world) reaches() bool { return w.way == "public" }

// unique is a name that nobody has yet.
func unique(prefix string) string {
	return fmt.Sprintf("%s%d%d", prefix, os.Getpid(), time.Now().UnixNano()%1_000_000)
}

// me is our own principal, as our token has it.
func me(w *world) string {
	token := must(w.credential.GetToken(w.ctx, policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}}))
	var claims struct {
		Oid string `json:"oid"`
	}
	body := must(base64.RawURLEncoding.DecodeString(strings.Split(token.Token, ".")[1]))
	expect(json.Unmarshal(body, &claims) == nil && claims.Oid != "", "no oid in the token")
	return claims.Oid
}

func assign(w *world, role, scope string) {
	client := must(armauthorization.NewRoleAssignmentsClient(w.subscription, w.credential, w.options))
	definition := fmt.Sprintf("/subscriptions/%s/providers/Microsoft.Authorization/roleDefinitions/%s", w.subscription, role)
	must(client.Create(w.ctx, scope, guid(), armauthorization.RoleAssignmentCreateParameters{Properties: &armauthorization.RoleAssignmentProperties{
		PrincipalID: to.Ptr(me(w)), RoleDefinitionID: to.Ptr(definition), PrincipalType: to.Ptr(armauthorization.PrincipalTypeServicePrincipal)}}, nil))
}

// generic makes a resource for which there is no client here.
func generic(w *world, kind, name, version string, body armresources.GenericResource) string {
	client := must(armresources.NewClient(w.subscription, w.credential, w.options))
	id := fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/%s/%s", w.subscription, w.group, kind, name)
	poller, err := client.BeginCreateOrUpdateByID(w.ctx, id, version, body, nil)
	done(w, poller, err)
	return id
}

func blobs(w *world) {
	name := unique("go")
	accounts := must(armstorage.NewAccountsClient(w.subscription, w.credential, w.options))
	poller, err := accounts.BeginCreate(w.ctx, w.group, name, armstorage.AccountCreateParameters{Location: to.Ptr(place), Kind: to.Ptr(armstorage.KindStorageV2),
		SKU: &armstorage.SKU{Name: to.Ptr(armstorage.SKUNameStandardLRS)}, Properties: &armstorage.AccountPropertiesCreateParameters{AllowBlobPublicAccess: to.Ptr(false)}}, nil)
	account := done(w, poller, err)
	if !w.reaches() {
		return
	}
	client := must(azblob.NewClient(*account.Properties.PrimaryEndpoints.Blob, w.credential, &azblob.ClientOptions{ClientOptions: w.options.ClientOptions}))
	must(client.CreateContainer(w.ctx, "box", nil))
	_, err = client.UploadBuffer(w.ctx, "box", "x", []byte("x"), nil)
	expect(bloberror.HasCode(err, bloberror.AuthorizationPermissionMismatch), "%v", err)
	assign(w, blobContributor, *account.ID)
	content := bytes.Repeat([]byte("zaffre"), 1<<20)
	options := &azblob.UploadBufferOptions{BlockSize: 1 << 20, HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("application/json")}, Metadata: map[string]*string{"owner": to.Ptr("go")}}
	must(client.UploadBuffer(w.ctx, "box", "a b/large", content, options))
	stream := must(client.DownloadStream(w.ctx, "box", "a b/large", nil))
	expect(bytes.Equal(must(io.ReadAll(stream.Body)), content) && *stream.ContentType == "application/json", "not what was uploaded")
	must(client.UploadBuffer(w.ctx, "box", "small", []byte("1"), nil))
	found := all(w, client.NewListBlobsFlatPager("box", &container.ListBlobsFlatOptions{MaxResults: to.Ptr[int32](1)}), func(p azblob.ListBlobsFlatResponse) []*container.BlobItem {
		return p.Segment.BlobItems
	})
	expect(len(found) == 2 && *found[0].Name == "a b/large", "%d blobs", len(found))
	small := client.ServiceClient().NewContainerClient("box").NewBlockBlobClient("small")
	stale := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: found[0].Properties.ETag}}
	_, err = small.Delete(w.ctx, &blob.DeleteOptions{AccessConditions: stale})
	expect(bloberror.HasCode(err, bloberror.ConditionNotMet), "%v", err)
	site := &service.SetPropertiesOptions{StaticWebsite: &service.StaticWebsite{Enabled: to.Ptr(true), IndexDocument: to.Ptr("index.html")}}
	must(client.ServiceClient().SetProperties(w.ctx, site))
	expect(*must(client.ServiceClient().GetProperties(w.ctx, nil)).StaticWebsite.Enabled, "the website is off")
	must(client.DeleteBlob(w.ctx, "box", "small", nil))
	_, err = client.DownloadStream(w.ctx, "box", "small", nil)
	expect(bloberror.HasCode(err, bloberror.BlobNotFound), "%v", err)
	must(client.DeleteContainer(w.ctx, "box", nil))
}

// purge deletes a vault for good.
func purge(w *world, id, name string) {
	resources := must(armresources.NewClient(w.subscription, w.credential, w.options))
	gone, err := resources.BeginDeleteByID(w.ctx, id, "2023-07-01", nil)
	done(w, gone, err)
	client := must(arm.NewClient("zaffre-probe", "v0.0.1", w.credential, w.options))
	path := fmt.Sprintf("/subscriptions/%s/providers/Microsoft.KeyVault/locations/%s/deletedVaults/%s/purge", w.subscription, place, name)
	request := must(runtime.NewRequest(w.ctx, http.MethodPost, runtime.JoinPaths(client.Endpoint(), path)))
	request.Raw().URL.RawQuery = "api-version=2023-07-01"
	answer := must(client.Pipeline().Do(request))
	expect(runtime.HasStatusCode(answer, 200, 202), "purge: %s", answer.Status)
	poller, err := runtime.NewPoller[struct{}](answer, client.Pipeline(), nil)
	done(w, poller, err)
}

func vaults(w *world) {
	name := unique("go-")
	id := generic(w, "Microsoft.KeyVault/vaults", name, "2023-07-01", armresources.GenericResource{Location: to.Ptr(place), Properties: map[string]any{
		"tenantId": env("AZURE_TENANT_ID"), "sku": map[string]any{"family": "A", "name": "standard"}, "enableRbacAuthorization": true}})
	// A deleted vault keeps its name for weeks.
	defer purge(w, id, name)
	if !w.reaches() {
		return
	}
	url := fmt.Sprintf("https://%s.vault.azure.net/", name)
	secrets := must(azsecrets.NewClient(url, w.credential, &azsecrets.ClientOptions{ClientOptions: w.options.ClientOptions}))
	_, err := secrets.SetSecret(w.ctx, "s", azsecrets.SetSecretParameters{Value: to.Ptr("x")}, nil)
	refused(err, 403, "Forbidden")
	assign(w, vaultAdministrator, id)
	first := must(secrets.SetSecret(w.ctx, "s", azsecrets.SetSecretParameters{Value: to.Ptr("one"), ContentType: to.Ptr("text/plain"), Tags: map[string]*string{"a": to.Ptr("b")}}, nil))
	must(secrets.SetSecret(w.ctx, "s", azsecrets.SetSecretParameters{Value: to.Ptr("two")}, nil))
	expect(*must(secrets.GetSecret(w.ctx, "s", "", nil)).Value == "two", "not the newest")
	expect(*must(secrets.GetSecret(w.ctx, "s", first.ID.Version(), nil)).Value == "one", "not the first")
	versions := all(w, secrets.NewListSecretPropertiesVersionsPager("s", nil), func(p azsecrets.ListSecretPropertiesVersionsResponse) []*azsecrets.SecretProperties { return p.Value })
	expect(len(versions) == 2, "%d versions", len(versions))
	must(secrets.DeleteSecret(w.ctx, "s", nil))
	_, err = secrets.GetSecret(w.ctx, "s", "", nil)
	refused(err, 404, "SecretNotFound")
	must(secrets.RecoverDeletedSecret(w.ctx, "s", nil))
	must(secrets.DeleteSecret(w.ctx, "s", nil))
	must(secrets.PurgeDeletedSecret(w.ctx, "s", nil))
	keys(w, url)
	certificates(w, url, secrets)
}

func keys(w *world, url string) {
	client := must(azkeys.NewClient(url, w.credential, &azkeys.ClientOptions{ClientOptions: w.options.ClientOptions}))
	key := must(client.CreateKey(w.ctx, "k", azkeys.CreateKeyParameters{Kty: to.Ptr(azkeys.KeyTypeRSA), KeySize: to.Ptr[int32](2048)}, nil))
	version := key.Key.KID.Version()
	by := to.Ptr(azkeys.EncryptionAlgorithmRSAOAEP256)
	locked := must(client.Encrypt(w.ctx, "k", version, azkeys.KeyOperationParameters{Algorithm: by, Value: []byte("hello")}, nil))
	open := must(client.Decrypt(w.ctx, "k", version, azkeys.KeyOperationParameters{Algorithm: by, Value: locked.Result}, nil))
	expect(string(open.Result) == "hello", "%q", open.Result)
	wrapped := must(client.WrapKey(w.ctx, "k", version, azkeys.KeyOperationParameters{Algorithm: by, Value: make([]byte, 32)}, nil))
	unwrapped := must(client.UnwrapKey(w.ctx, "k", version, azkeys.KeyOperationParameters{Algorithm: by, Value: wrapped.Result}, nil))
	expect(bytes.Equal(unwrapped.Result, make([]byte, 32)), "not what was wrapped")
	digest := sha256.Sum256([]byte("text"))
	signed := must(client.Sign(w.ctx, "k", version, azkeys.SignParameters{Algorithm: to.Ptr(azkeys.SignatureAlgorithmPS256), Value: digest[:]}, nil))
	good := must(client.Verify(w.ctx, "k", version, azkeys.VerifyParameters{Algorithm: to.Ptr(azkeys.SignatureAlgorithmPS256), Digest: digest[:], Signature: signed.Result}, nil))
	expect(*good.Value, "the signature is not good")
	rotated := must(client.RotateKey(w.ctx, "k", nil))
	expect(rotated.Key.KID.Version() != version, "the same version")
	_, err := client.Encrypt(w.ctx, "absent", version, azkeys.KeyOperationParameters{Algorithm: by, Value: []byte("x")}, nil)
	refused(err, 404, "KeyNotFound")
}

func certificates(w *world, url string, secrets *azsecrets.Client) {
	client := must(azcertificates.NewClient(url, w.credential, &azcertificates.ClientOptions{ClientOptions: w.options.ClientOptions}))
	order := azcertificates.CreateCertificateParameters{CertificatePolicy: &azcertificates.CertificatePolicy{
		IssuerParameters:          &azcertificates.IssuerParameters{Name: to.Ptr("Self")},
		X509CertificateProperties: &azcertificates.X509CertificateProperties{Subject: to.Ptr("CN=go")},
	}}
	must(client.CreateCertificate(w.ctx, "c", order, nil))
	for try := 0; *must(client.GetCertificateOperation(w.ctx, "c", nil)).Status != "completed"; try++ {
		expect(try < 300, "it is never issued")
		time.Sleep(100 * time.Millisecond)
	}
	made := must(client.GetCertificate(w.ctx, "c", "", nil))
	expect(len(made.CER) > 100 && len(made.X509Thumbprint) == 20, "no certificate")
	held := must(secrets.GetSecret(w.ctx, made.SID.Name(), made.SID.Version(), nil))
	copied := must(client.ImportCertificate(w.ctx, "copy", azcertificates.ImportCertificateParameters{Base64EncodedCertificate: held.Value}, nil))
	expect(bytes.Equal(copied.CER, made.CER), "another certificate")
	_, err := client.ImportCertificate(w.ctx, "junk", azcertificates.ImportCertificateParameters{Base64EncodedCertificate: to.Ptr("anVuaw==")}, nil)
	refused(err, 400, "BadParameter")
	must(client.DeleteCertificate(w.ctx, "c", nil))
	must(client.PurgeDeletedCertificate(w.ctx, "c", nil))
}

func registries(w *world) {
	name := unique("go")
	id := generic(w, "Microsoft.ContainerRegistry/registries", name, "2023-07-01", armresources.GenericResource{Location: to.Ptr(place), SKU: &armresources.SKU{Name: to.Ptr("Basic")}})
	if !w.reaches() {
		return
	}
	assign(w, acrPush, id)
	url := fmt.Sprintf("https://%s.azurecr.io", name)
	blobs := must(azcontainerregistry.NewBlobClient(url, w.credential, &azcontainerregistry.BlobClientOptions{ClientOptions: w.options.ClientOptions}))
	upload := func(content []byte) string {
		started := must(blobs.StartUpload(w.ctx, "zaffre/release", nil))
		calculator := azcontainerregistry.NewBlobDigestCalculator()
		sent := must(blobs.UploadChunk(w.ctx, *started.Location, bytes.NewReader(content), calculator, nil))
		return *must(blobs.CompleteUpload(w.ctx, *sent.Location, calculator, nil)).DockerContentDigest
	}
	config, layer := []byte(`{"os":"linux"}`), bytes.Repeat([]byte("layer"), 100_000)
	descriptor := func(media string, content []byte) map[string]any {
		return map[string]any{"mediaType": media, "size": len(content), "digest": upload(content)}
	}
	manifest := must(json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor("application/vnd.oci.image.config.v1+json", config),
		"layers": []any{descriptor("application/vnd.oci.image.layer.v1.tar+gzip", layer)},
	}))
	client := must(azcontainerregistry.NewClient(url, w.credential, &azcontainerregistry.ClientOptions{ClientOptions: w.options.ClientOptions}))
	must(client.UploadManifest(w.ctx, "zaffre/release", "v1", azcontainerregistry.ContentTypeApplicationVndOciImageManifestV1JSON, streaming.NopCloser(bytes.NewReader(manifest)), nil))
	got := must(client.GetManifest(w.ctx, "zaffre/release", "v1", &azcontainerregistry.ClientGetManifestOptions{Accept: to.Ptr("application/vnd.oci.image.manifest.v1+json")}))
	expect(bytes.Equal(must(io.ReadAll(got.ManifestData)), manifest), "another manifest")
	tags := all(w, client.NewListTagsPager("zaffre/release", nil), func(p azcontainerregistry.ClientListTagsResponse) []*azcontainerregistry.TagAttributes { return p.Tags })
	expect(len(tags) == 1 && *tags[0].Name == "v1", "%d tags", len(tags))
	_, err := client.GetManifest(w.ctx, "zaffre/release", "absent", nil)
	expect(err != nil && strings.Contains(err.Error(), "MANIFEST_UNKNOWN"), "%v", err)
}
