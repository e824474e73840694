"""Data planes with the Azure SDK for Python, against the simulator whose environment is sourced.

Prints `ok <name>` per check and exits 1 at the end if any failed. As in test_azure.py the clients are for public
Azure: the proxy and the CA bundle of the environment lead vault, blob and registry names to the simulator.

    . env-file; target/venv-azure/bin/python interop/python/test_azure_data.py [name ...]
"""

import contextlib
import datetime
import hashlib
import io
import json
import os
import sys
import urllib.request
import uuid

from azure.containerregistry import ContainerRegistryClient
from azure.identity import CertificateCredential, ClientSecretCredential
from azure.keyvault.certificates import CertificateClient, CertificatePolicy
from azure.keyvault.keys import KeyClient
from azure.keyvault.keys.crypto import EncryptionAlgorithm, KeyWrapAlgorithm, SignatureAlgorithm
from azure.keyvault.secrets import SecretClient
from azure.mgmt.authorization import AuthorizationManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.storage.blob import (
    AccountSasPermissions,
    BlobSasPermissions,
    BlobServiceClient,
    ContainerClient,
    ResourceTypes,
    StaticWebsite,
    generate_account_sas,
    generate_blob_sas,
)

from checks import check, expect, refused, run

SUBSCRIPTION, TENANT = os.environ["AZURE_SUBSCRIPTION_ID"], os.environ["AZURE_TENANT_ID"]
CLIENT, SECRET = os.environ["AZURE_CLIENT_ID"], os.environ["AZURE_CLIENT_SECRET"]
CREDENTIAL = ClientSecretCredential(TENANT, CLIENT, SECRET)
RESOURCES = ResourceManagementClient(CREDENTIAL, SUBSCRIPTION)
ROLES = AuthorizationManagementClient(CREDENTIAL, SUBSCRIPTION)
GROUP = "sdk-data"


def make(kind, name, version, body):
    path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/{kind}/{name}"
    return RESOURCES.resources.begin_create_or_update_by_id(path, body, api_version=version).result()


def assign(scope, role):
    me = json.loads(_claims())["oid"]
    definition = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{role}"
    ROLES.role_assignments.create(scope, str(uuid.uuid4()), {"role_definition_id": definition, "principal_id": me, "principal_type": "ServicePrincipal"})


def _claims():
    import base64

    part = CREDENTIAL.get_token("https://management.azure.com/.default").token.split(".")[1]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def vault():
    made = make("Microsoft.KeyVault/vaults", "sdk-vault", "2023-07-01", {
        "location": "westus2",
        "properties": {"tenantId": TENANT, "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": True},
    })
    assign(made.id, "00482a5a-887f-4fb3-b363-3b7fe8e74483")
    return "https://sdk-vault.vault.azure.net"


@check
def secrets(at):
    client = SecretClient(at["vault"], CREDENTIAL)
    client.set_secret("one", "first", tags={"a": "b"}, content_type="text/plain")
    second = client.set_secret("one", "second")
    expect(client.get_secret("one").value == "second", "the newest version")
    expect(len(list(client.list_properties_of_secret_versions("one"))) == 2, "two versions")
    client.update_secret_properties("one", second.properties.version, enabled=True, tags={"c": "d"})
    for i in range(30):
        client.set_secret(f"many-{i}", str(i))
    expect(len(list(client.list_properties_of_secrets())) == 31, "pages")
    client.begin_delete_secret("one").wait()
    refused(lambda: client.get_secret("one"), 404, "SecretNotFound")
    client.begin_recover_deleted_secret("one").wait()
    expect(client.get_secret("one").value == "second", "recovered")
    client.begin_delete_secret("many-1").wait()
    client.purge_deleted_secret("many-1")
    kept = client.backup_secret("many-2")
    expect(len(kept) > 10, "a backup")


@check
def keys(at):
    client = KeyClient(at["vault"], CREDENTIAL)
    key = client.create_rsa_key("rsa", size=2048)
    expect(key.key_type == "RSA" and len(key.key.n) >= 256, "a key")
    crypto = client.get_cryptography_client("rsa")
    for algorithm in [EncryptionAlgorithm.rsa_oaep_256, EncryptionAlgorithm.rsa_oaep]:
        locked = crypto.encrypt(algorithm, b"hello")
        expect(crypto.decrypt(algorithm, locked.ciphertext).plaintext == b"hello", str(algorithm))
    wrapped = crypto.wrap_key(KeyWrapAlgorithm.rsa_oaep_256, b"0" * 32)
    expect(crypto.unwrap_key(KeyWrapAlgorithm.rsa_oaep_256, wrapped.encrypted_key).key == b"0" * 32, "unwrapped")
    digest = hashlib.sha256(b"text").digest()
    for algorithm in [SignatureAlgorithm.rs256, SignatureAlgorithm.ps256]:
        signed = crypto.sign(algorithm, digest)
        expect(crypto.verify(algorithm, digest, signed.signature).is_valid, str(algorithm))
    client.create_ec_key("ec", curve="P-256")
    ec = client.get_cryptography_client("ec")
    signed = ec.sign(SignatureAlgorithm.es256, digest)
    expect(ec.verify(SignatureAlgorithm.es256, digest, signed.signature).is_valid, "ES256")
    before = client.get_key("rsa").properties.version
    expect(client.rotate_key("rsa").properties.version != before, "rotated")
    client.begin_delete_key("ec").wait()
    client.purge_deleted_key("ec")


@check
def certificates(at):
    client = CertificateClient(at["vault"], CREDENTIAL)
    policy = CertificatePolicy.get_default()
    made = client.begin_create_certificate("app", policy).result()
    expect(made.cer, "issued")
    pfx = SecretClient(at["vault"], CREDENTIAL).get_secret("app").value
    import base64

    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    key, certificate, _ = pkcs12.load_key_and_certificates(base64.b64decode(pfx), b"")
    expect(certificate.public_bytes(Encoding.DER) == bytes(made.cer), "the secret holds the certificate")
    again = pkcs12.serialize_key_and_certificates(b"x", key, certificate, None, NoEncryption())
    imported = client.import_certificate("again", again)
    expect(imported.properties.x509_thumbprint == made.properties.x509_thumbprint, "imported")
    refused(lambda: client.import_certificate("bad", b"not a pfx"), 400, "BadParameter")
    expect({c.name for c in client.list_properties_of_certificates()} >= {"app", "again"}, "listed")
    client.begin_delete_certificate("again").wait()
    client.begin_recover_deleted_certificate("again").wait()


@check
def blobs(at):
    service = BlobServiceClient(at["blob"], credential=CREDENTIAL)
    container = service.create_container("data")
    blob = container.get_blob_client("dir/ä b.txt")
    blob.upload_blob(b"hello world", metadata={"k": "v"})
    expect(blob.download_blob().readall() == b"hello world", "read back")
    expect(blob.download_blob(offset=6, length=5).readall() == b"world", "a range")
    expect(blob.get_blob_properties().metadata == {"k": "v"}, "metadata")
    refused(lambda: blob.upload_blob(b"again"), 409, "BlobAlreadyExists")
    big = os.urandom(9 << 20)
    large = BlobServiceClient(at["blob"], credential=CREDENTIAL, max_single_put_size=1 << 20, max_block_size=1 << 20).get_blob_client("data", "big")
    large.upload_blob(io.BytesIO(big), overwrite=True)
    expect(large.download_blob().readall() == big, "in blocks")
    expect(len(large.get_block_list()[0]) == 9, "nine blocks")
    blob.set_blob_tags({"t": "1"})
    expect(blob.get_blob_tags() == {"t": "1"}, "tags")
    expect(sorted(b.name for b in container.walk_blobs()) == ["big", "dir/"], "folders")
    expect(sorted(b.name for b in container.list_blobs(results_per_page=1)) == ["big", "dir/ä b.txt"], "pages")
    lease = blob.acquire_lease(15)
    refused(lambda: blob.upload_blob(b"x", overwrite=True), 412, "LeaseIdMissing")
    lease.release()
    copy = container.get_blob_client("copy")
    copy.start_copy_from_url(blob.url)
    expect(copy.download_blob().readall() == b"hello world", "copied")
    copy.delete_blob()
    keyed = BlobServiceClient(at["blob"], credential=at["key"])
    expect(keyed.get_blob_client("data", "dir/ä b.txt").download_blob().readall() == b"hello world", "by the account's key")
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    sas = generate_blob_sas("sdkdata", "data", "big", account_key=at["key"], permission=BlobSasPermissions(read=True), expiry=until)
    expect(len(urllib.request.urlopen(f"{at['blob']}/data/big?{sas}").read()) == 9 << 20, "by a service SAS")
    sas = generate_account_sas("sdkdata", at["key"], ResourceTypes(container=True, object=True), AccountSasPermissions(read=True, list=True), until)
    expect(len(list(ContainerClient(at["blob"], "data", credential=sas).list_blobs())) == 2, "by an account SAS")
    delegation = service.get_user_delegation_key(datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=1), until)
    sas = generate_blob_sas("sdkdata", "data", "big", user_delegation_key=delegation, permission=BlobSasPermissions(read=True), expiry=until)
    expect(len(urllib.request.urlopen(f"{at['blob']}/data/big?{sas}").read()) == 9 << 20, "by a user delegation SAS")
    try:
        urllib.request.urlopen(f"{at['blob']}/data/big?{sas.replace('sp=r', 'sp=rw')}")
        raise AssertionError("a forged SAS was accepted")
    except urllib.error.HTTPError as e:
        expect(e.code == 403, str(e))


@check
def website(at):
    service = BlobServiceClient(at["blob"], credential=at["key"])
    service.set_service_properties(static_website=StaticWebsite(enabled=True, index_document="index.html"))
    expect(service.get_service_properties()["static_website"].enabled, "on")
    service.get_blob_client("$web", "index.html").upload_blob(b"<p>hi", overwrite=True)
    expect(urllib.request.urlopen(at["web"]).read() == b"<p>hi", "served")


@check
def registry(at):
    with ContainerRegistryClient("https://sdkregistry.azurecr.io", CREDENTIAL, audience="https://management.azure.com") as client:
        layer, config = b"layer" * 1000, b"{}"
        digest, size = client.upload_blob("team/app", io.BytesIO(layer))
        cdigest, csize = client.upload_blob("team/app", io.BytesIO(config))
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": cdigest, "size": csize},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": size}],
        }
        client.set_manifest("team/app", manifest, tag="v1")
        expect(client.get_manifest("team/app", "v1").manifest == manifest, "the manifest")
        expect(b"".join(client.download_blob("team/app", digest)) == layer, "the layer")
        expect(list(client.list_repository_names()) == ["team/app"], "the catalog")
        expect([t.name for t in client.list_tag_properties("team/app")] == ["v1"], "tags")
        client.delete_tag("team/app", "v1")
        client.delete_repository("team/app")


def main():
    RESOURCES.resource_groups.create_or_update(GROUP, {"location": "westus2"})
    RESOURCES.providers.register("Microsoft.ContainerRegistry")
    account = make("Microsoft.Storage/storageAccounts", "sdkdata", "2023-05-01", {"location": "westus2", "sku": {"name": "Standard_LRS"}, "kind": "StorageV2"})
    assign(account.id, "b7e6dc6d-f1e8-4753-8033-0f276bb0955b")
    make("Microsoft.ContainerRegistry/registries", "sdkregistry", "2023-07-01", {"location": "westus2", "sku": {"name": "Standard"}})
    request = urllib.request.Request(
        f"https://management.azure.com{account.id}/listKeys?api-version=2023-05-01", method="POST", data=b"",
        headers={"Authorization": "Bearer " + CREDENTIAL.get_token("https://management.azure.com/.default").token},
    )
    at = {
        "vault": vault(), "blob": "https://sdkdata.blob.core.windows.net", "web": "https://sdkdata.z5.web.core.windows.net/",
        "key": json.load(urllib.request.urlopen(request))["keys"][0]["value"],
    }
    failed = run(sys.argv[1:], lambda: contextlib.nullcontext(at))
    RESOURCES.resource_groups.begin_delete(GROUP).wait()
    gone = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.KeyVault/locations/westus2/deletedVaults/sdk-vault/purge?api-version=2023-07-01"
    urllib.request.urlopen(urllib.request.Request(
        "https://management.azure.com" + gone, method="POST", data=b"",
        headers={"Authorization": "Bearer " + CREDENTIAL.get_token("https://management.azure.com/.default").token},
    ))
    return 1 if failed else 0


sys.exit(main())
