"""The Azure CLI's vaults, storage, registries and deployments, against the simulator whose environment is sourced.

    . env-file; target/venv-az/bin/python interop/python/az_data.py public|custom [name ...]

Names of vaults, accounts and registries resolve nowhere, so here the custom cloud has the proxy, too.
"""

import base64
import hashlib
import json
import os
import pathlib
import sys
import urllib.error
import urllib.parse
import urllib.request

import az_cli
from az_cli import CONFIG, SUBSCRIPTION, WAY, az, names, refused
from checks import check, expect, run

HERE = pathlib.Path(CONFIG.name)
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/d"
VAULT, ACCOUNT, REGISTRY = f"az-vault-{WAY}", f"azdata{WAY}", f"azregistry{WAY}"


def file(name, content):
    path = HERE / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def fetch(url, data=None, method=None, **headers):
    """Status and body, without a client."""
    request = urllib.request.Request(url, data=data, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as e:
        return e.code, e.read(), e.headers


@check
def begin():
    az_cli.enter(planes=True)
    az_cli.login()
    az("group create -n d -l westus2")


@check
def vault():
    made = az(f"keyvault create -g d -n {VAULT} -l westus2 --enable-rbac-authorization true --retention-days 7")
    expect(made["properties"]["vaultUri"] == f"https://{VAULT}.vault.azure.net/", f"{made}")
    refused(f"keyvault secret set --vault-name {VAULT} -n no --value x", "Forbidden")
    me = az(f"ad sp show --id {az_cli.CLIENT}")["id"]
    az(f"role assignment create --assignee-object-id {me} --assignee-principal-type ServicePrincipal --role 00482a5a-887f-4fb3-b363-3b7fe8e74483 --scope {made['id']}")
    expect(VAULT in names(az("keyvault list -g d")), "list")


@check
def secrets():
    first = az(f"keyvault secret set --vault-name {VAULT} -n one --value first --tags a=b")
    az(f"keyvault secret set --vault-name {VAULT} -n one --value second")
    expect(az(f"keyvault secret show --vault-name {VAULT} -n one")["value"] == "second", "the newest")
    expect(az(f"keyvault secret show --id {first['id']}")["value"] == "first", "by version")
    expect(names(az(f"keyvault secret list --vault-name {VAULT}")) == ["one"], "list")
    az(f"keyvault secret delete --vault-name {VAULT} -n one")
    refused(f"keyvault secret show --vault-name {VAULT} -n one", "SecretNotFound")
    az(f"keyvault secret recover --vault-name {VAULT} -n one")
    az(f"keyvault secret delete --vault-name {VAULT} -n one")
    az(f"keyvault secret purge --vault-name {VAULT} -n one")


@check
def keys():
    key = az(f"keyvault key create --vault-name {VAULT} -n k --kty RSA --size 2048")
    expect(key["key"]["kty"] == "RSA", f"{key}")
    text = base64.b64encode(b"hello").decode()
    locked = az(f"keyvault key encrypt --vault-name {VAULT} -n k --algorithm RSA-OAEP-256 --value {text}")["result"]
    opened = az(f"keyvault key decrypt --vault-name {VAULT} -n k --algorithm RSA-OAEP-256 --value", locked)["result"]
    expect(opened == text, "decrypted")
    az(f"keyvault key create --vault-name {VAULT} -n ec --kty EC --curve P-256")
    refused(f"keyvault key encrypt --vault-name {VAULT} -n ec --algorithm RSA-OAEP-256 --value {text}", "KeyOperationForbidden")
    digest = base64.b64encode(hashlib.sha256(b"x").digest()).decode()
    signed = az(f"keyvault key sign --vault-name {VAULT} -n ec --algorithm ES256 --digest {digest}")["signature"]
    expect(az(f"keyvault key verify --vault-name {VAULT} -n ec --algorithm ES256 --digest {digest} --signature", signed)["isValid"], "verified")
    expect(names(az(f"keyvault key list --vault-name {VAULT}")) == ["ec", "k"], "list")


@check
def certificates():
    policy = az("keyvault certificate get-default-policy")
    made = az(f"keyvault certificate create --vault-name {VAULT} -n c -p", json.dumps(policy))
    expect(made["status"] == "completed", f"{made}")
    shown = az(f"keyvault certificate show --vault-name {VAULT} -n c")
    az(f"keyvault certificate download --vault-name {VAULT} -n c -e DER -f {HERE / 'c.der'}")
    expect((HERE / "c.der").read_bytes() == base64.b64decode(shown["cer"]), "the same certificate")
    az(f"keyvault secret download --vault-name {VAULT} -n c -f {HERE / 'c.pfx'} -e base64")
    again = az(f"keyvault certificate import --vault-name {VAULT} -n again -f {HERE / 'c.pfx'}")
    expect(again["x509ThumbprintHex"] == shown["x509ThumbprintHex"], "imported")
    refused(f"keyvault certificate import --vault-name {VAULT} -n bad -f {file('bad.pfx', os.urandom(64))}", "BadParameter")
    expect(names(az(f"keyvault certificate list --vault-name {VAULT}")) == ["again", "c"], "nothing of the bad one")


@check
def storage():
    made = az(f"storage account create -g d -n {ACCOUNT} -l westus2 --sku Standard_LRS --allow-blob-public-access true")
    expect(made["provisioningState"] == "Succeeded", f"{made}")
    expect(az(f"storage account check-name -n {ACCOUNT}")["nameAvailable"] is False, "taken")
    key = az(f"storage account keys list -g d -n {ACCOUNT}")[0]["value"]
    at = f"--account-name {ACCOUNT} --account-key {key}"
    az(f"storage container create -n data {at}")
    expect(names(az(f"storage container list {at}")) == ["data"], "containers")
    text = file("text", "hello world")
    az(f"storage blob upload -c data -n dir/text.txt -f {text} {at}")
    refused(f"storage blob upload -c data -n dir/text.txt -f {text} {at}", "already exists")
    expect(names(az(f"storage blob list -c data {at}")) == ["dir/text.txt"], "blobs")
    az(f"storage blob download -c data -n dir/text.txt -f {HERE / 'back'} {at}")
    expect((HERE / "back").read_bytes() == b"hello world", "read back")
    sas = az(f"storage blob generate-sas -c data -n dir/text.txt --permissions r --expiry 2099-01-01T00:00Z {at}")
    url = f"https://{ACCOUNT}.blob.core.windows.net/data/dir/text.txt"
    expect(fetch(f"{url}?{sas}")[:2] == (200, b"hello world"), "by a SAS")
    expect(fetch(f"{url}?{sas.replace('sp=r', 'sp=rw')}")[0] == 403, "a forged SAS")
    expect(fetch(url)[0] in (401, 404, 409), "and by nobody")
    refused(f"storage blob show -c data -n dir/text.txt --account-name {ACCOUNT} --auth-mode login", "permissions")
    me = az(f"ad sp show --id {az_cli.CLIENT}")["id"]
    az(f"role assignment create --assignee-object-id {me} --assignee-principal-type ServicePrincipal --role ba92f5b4-2d11-453d-a403-e96b0029c9fe --scope {made['id']}")
    expect(az(f"storage blob show -c data -n dir/text.txt --account-name {ACCOUNT} --auth-mode login")["properties"]["contentLength"] == 11, "by a token")
    az(f"storage blob delete -c data -n dir/text.txt {at}")
    expect(az(f"storage blob exists -c data -n dir/text.txt {at}")["exists"] is False, "gone")


@check
def website():
    key = az(f"storage account keys list -g d -n {ACCOUNT}")[0]["value"]
    at = f"--account-name {ACCOUNT} --account-key {key}"
    az(f"storage blob service-properties update --static-website --index-document index.html --404-document lost.html {at}")
    expect(az(f"storage blob service-properties show {at}")["staticWebsite"]["enabled"], "on")
    az(f"storage blob upload -c $web -n index.html -f {file('i', '<p>hi')} --content-type text/html {at}")
    az(f"storage blob upload -c $web -n lost.html -f {file('l', '<p>lost')} --content-type text/html {at}")
    web = az(f"storage account show -g d -n {ACCOUNT}")["primaryEndpoints"]["web"]
    status, body, headers = fetch(web)
    expect((status, body, headers["content-type"]) == (200, b"<p>hi", "text/html"), f"{status} {body}")
    expect(fetch(web + "absent")[:2] == (404, b"<p>lost"), "what is not there")


@check
def shares():
    az(f"storage share-rm create --storage-account {ACCOUNT} -g d -n share --quota 5")
    expect(az(f"storage share-rm show --storage-account {ACCOUNT} -g d -n share")["shareQuota"] == 5, "quota")
    expect(names(az(f"storage share-rm list --storage-account {ACCOUNT} -g d")) == ["share"], "shares")
    az(f"storage share-rm delete --storage-account {ACCOUNT} -g d -n share --yes")


def push(registry, repository, tag):
    """An image of one layer, by hand, with the token that az exposes."""
    refresh = az(f"acr login -n {registry} --expose-token")["accessToken"]
    host = f"https://{registry}.azurecr.io"
    form = urllib.parse.urlencode({"grant_type": "refresh_token", "service": f"{registry}.azurecr.io", "scope": f"repository:{repository}:push,pull", "refresh_token": refresh})
    status, body, _ = fetch(f"{host}/oauth2/token", form.encode(), Content_Type="application/x-www-form-urlencoded")
    expect(status == 200, f"{status} {body}")
    auth = {"Authorization": "Bearer " + json.loads(body)["access_token"]}
    sizes = {}
    for content in [b"layer", b"{}"]:
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        status, body, headers = fetch(f"{host}/v2/{repository}/blobs/uploads/", b"", "POST", **auth)
        expect(status == 202, f"{status} {body}")
        at = urllib.parse.urljoin(host, headers["Location"])
        at += ("&" if "?" in at else "?") + urllib.parse.urlencode({"digest": digest})
        status, body, _ = fetch(at, content, "PUT", Content_Type="application/octet-stream", **auth)
        expect(status == 201, f"{status} {body}")
        sizes[content] = {"digest": digest, "size": len(content)}
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": kind,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **sizes[b"{}"]},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **sizes[b"layer"]}],
    }).encode()
    status, body, _ = fetch(f"{host}/v2/{repository}/manifests/{tag}", manifest, "PUT", Content_Type=kind, **auth)
    expect(status == 201, f"{status} {body}")
    return "sha256:" + hashlib.sha256(manifest).hexdigest()


@check
def registries():
    az("provider register -n Microsoft.ContainerRegistry")
    made = az(f"acr create -g d -n {REGISTRY} --sku Premium")
    expect(made["loginServer"] == f"{REGISTRY}.azurecr.io", f"{made}")
    expect(az(f"acr check-name -n {REGISTRY}")["nameAvailable"] is False, "taken")
    digest = push(REGISTRY, "team/app", "v1")
    expect(az(f"acr repository list -n {REGISTRY}") == ["team/app"], "repositories")
    expect(az(f"acr repository show-tags -n {REGISTRY} --repository team/app") == ["v1"], "tags")
    expect(az(f"acr repository show -n {REGISTRY} --image team/app:v1")["digest"] == digest, "digest")
    az(f"acr create -g d -n {REGISTRY}2 --sku Basic")
    az(f"acr import -n {REGISTRY}2 --source {REGISTRY}.azurecr.io/team/app:v1 --image copied:v2")
    expect(az(f"acr repository show -n {REGISTRY}2 --image copied:v2")["digest"] == digest, "imported")
    az(f"acr replication create -r {REGISTRY} -l eastus")
    expect({"eastus"} <= set(names(az(f"acr replication list -r {REGISTRY}"))), "replications")
    az(f"acr update -n {REGISTRY} --admin-enabled true")
    shown = az(f"acr credential show -n {REGISTRY}")
    expect(shown["username"] == REGISTRY and len(shown["passwords"]) == 2, "admin")
    az(f"acr repository delete -n {REGISTRY} --image team/app:v1 --yes")
    expect(az(f"acr repository list -n {REGISTRY}") == [], "gone")


TEMPLATE = {
    "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
    "contentVersion": "1.0.0.0",
    "parameters": {"name": {"type": "string"}, "tag": {"type": "string", "defaultValue": "one"}},
    "resources": [
        {"type": "Microsoft.Network/networkSecurityGroups", "apiVersion": "2024-05-01", "name": "[parameters('name')]",
         "location": "[resourceGroup().location]", "tags": {"t": "[parameters('tag')]"}, "properties": {}},
        {"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "inner",
         "dependsOn": ["[resourceId('Microsoft.Network/networkSecurityGroups', parameters('name'))]"],
         "properties": {
             "mode": "Incremental", "expressionEvaluationOptions": {"scope": "inner"},
             "parameters": {"id": {"value": "[resourceId('Microsoft.Network/networkSecurityGroups', parameters('name'))]"}},
             "template": {
                 "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
                 "contentVersion": "1.0.0.0", "parameters": {"id": {"type": "string"}},
                 "resources": [{"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2024-05-01", "name": "nested",
                     "location": "[resourceGroup().location]", "properties": {
                         "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
                         "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24", "networkSecurityGroup": {"id": "[parameters('id')]"}}}]}}],
                 "outputs": {"net": {"type": "string", "value": "[resourceId('Microsoft.Network/virtualNetworks', 'nested')]"}},
             },
         }},
    ],
    "outputs": {"net": {"type": "string", "value": "[reference('inner').outputs.net.value]"}},
}


@check
def deployments():
    at = f"-g d --template-file {file('t.json', json.dumps(TEMPLATE))}"
    checked = az(f"deployment group validate {at} -n dep --parameters name=rules")
    expect(checked["error"] is None and checked["properties"]["provisioningState"] == "Succeeded", f"{checked}")
    expect(az("resource list -g d --resource-type Microsoft.Network/networkSecurityGroups") == [], "validated, not made")
    changes = lambda: {c["resourceId"].rsplit("/", 1)[1]: c["changeType"] for c in what_if["changes"] if "Microsoft.Network" in c["resourceId"]}
    what_if = az(f"deployment group what-if {at} -n dep --parameters name=rules --no-pretty-print")
    expect(changes() == {"rules": "Create", "nested": "Create"}, f"{what_if}")
    made = az(f"deployment group create {at} -n dep --parameters name=rules")
    net = made["properties"]["outputs"]["net"]["value"]
    expect(net == f"{GROUP}/providers/Microsoft.Network/virtualNetworks/nested", f"{made['properties']['outputs']}")
    expect(az("network vnet show -g d -n nested")["subnets"][0]["networkSecurityGroup"]["id"].endswith("/rules"), "made")
    what_if = az(f"deployment group what-if {at} -n dep --parameters name=rules tag=two --no-pretty-print")
    expect(changes() == {"rules": "Modify", "nested": "NoChange"}, f"{what_if}")
    [change] = [c for c in what_if["changes"] if c["changeType"] == "Modify"]
    expect([(p["path"], p["before"], p["after"]) for p in change["delta"]] == [("tags.t", "one", "two")], f"{change}")
    expect({"dep", "inner"} <= set(names(az("deployment group list -g d"))), "deployments")
    steps = az("deployment operation group list -g d -n dep")
    expect(all(s["properties"]["provisioningState"] == "Succeeded" for s in steps) and len(steps) >= 2, f"{steps}")
    bad = {**TEMPLATE, "resources": [{**TEMPLATE["resources"][0], "name": "[nonsense(parameters('name'))]"}], "outputs": {}}
    refused(f"deployment group create -g d -n bad --template-file {file('bad.json', json.dumps(bad))} --parameters name=x", "InvalidTemplate")


@check
def gone():
    az("group delete -n d --yes")
    az(f"keyvault purge -n {VAULT} -l westus2")
    refused("group show -n d", "ResourceGroupNotFound")


az_cli.end(run(sys.argv[2:]))
