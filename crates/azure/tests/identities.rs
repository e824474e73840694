//! Identities end to end: of machines, of certificates in vaults, of issuers that publish in the simulator's own accounts.

use crate::support::{Target, target};
use arm::ResourceId;
use azure::blob::{Access, PutOptions, Website};
use azure::credential::{Certificate, Confidential, Entra, Proof};
use azure::ops::*;
use azure::vault::{CertificatePolicy, SetSecret, Vault};
use azure::{Client, ClientOptions, Credential, EntraFault, Env, Error, Http, HttpOptions, Timing, connect};
use azure_sim::FrontDoor;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

const READER: &str = "acdd72a7-3385-48ef-bd42-f606fba81ae7";
const VAULT_ADMINISTRATOR: &str = "00482a5a-887f-4fb3-b363-3b7fe8e74483";
const SECRETS_USER: &str = "4633458b-17de-408a-b874-0445c86b69e6";
const BLOB_CONTRIBUTOR: &str = "ba92f5b4-2d11-453d-a403-e96b0029c9fe";

async fn make<T: azure::ArmType>(t: &Target, g: &ResourceId, name: &str, body: Value) -> (ResourceId, Value) {
    let arm = t.client.arm::<T>();
    let id = arm.id(g, name).unwrap();
    let made = arm.put(&id, &serde_json::from_value(body).unwrap()).await.unwrap();
    (id, serde_json::to_value(made).unwrap())
}

async fn machine(t: &Target, g: &ResourceId, user: &ResourceId) -> (ResourceId, Value) {
    let net = json!({"location": t.location, "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24"}}]}});
    let (net, _) = make::<VirtualNetworks>(t, g, "net", net).await;
    let nic = json!({"location": t.location, "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": format!("{net}/subnets/s")}}}]}});
    let (nic, _) = make::<NetworkInterfaces>(t, g, "nic", nic).await;
    let vm = json!({"location": t.location, "identity": {"type": "SystemAssigned, UserAssigned", "userAssignedIdentities": {(user.as_str()): {}}}, "properties": {
        "hardwareProfile": {"vmSize": "Standard_D2s_v5"},
        "storageProfile": {"imageReference": {"publisher": "Canonical", "offer": "ubuntu-24_04-lts", "sku": "server", "version": "latest"}},
        "osProfile": {"computerName": "m", "adminUsername": "zaffre", "adminPassword": "Zaffre-12345"},
        "networkProfile": {"networkInterfaces": [{"id": nic.as_str()}]},
    }});
    make::<VirtualMachines>(t, g, "m", vm).await
}

/// An environment that says nothing about who we are.
fn bare(env: &Env) -> Env {
    let named = ["AZURE_CLIENT_SECRET", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"];
    named.iter().fold(env.clone(), |e, n| e.without(n)).with("PATH", "")
}

async fn client(env: &Env) -> Client {
    connect(env, ClientOptions::default()).await.unwrap().client
}

async fn vault(t: &Target, g: &ResourceId) -> (ResourceId, Vault) {
    let tenant = t.env.get("AZURE_TENANT_ID").unwrap();
    let body = json!({"location": t.location, "properties": {"tenantId": tenant, "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true}});
    let (id, _) = make::<Vaults>(t, g, &t.unique("zaffre"), body).await;
    let vault = t.with_role(VAULT_ADMINISTRATOR, &id).await.vault(id.name()).unwrap();
    (id, vault)
}

#[tokio::test]
async fn a_machine_may_what_its_roles_say() {
    let t = target().await;
    let Some(sim) = t.only_sim("its machines are not ours to log into") else { return };
    t.in_group("imds", async |g: ResourceId| {
        let (user, shown) =
            make::<UserAssignedIdentities>(&t, &g, "u", json!({"location": t.location})).await;
        let user_client = shown["properties"]["clientId"].as_str().unwrap().to_owned();
        let user_principal = shown["properties"]["principalId"].as_str().unwrap().to_owned();
        let (vm, shown) = machine(&t, &g, &user).await;
        let system = shown["identity"]["principalId"].as_str().unwrap().to_owned();
        let (vault_id, vault) = vault(&t, &g).await;
        vault.secrets().set("s", &SetSecret::new("of the vault")).await.unwrap();
        let variables = sim.machine_variables(vm.as_str()).unwrap();
        let of = |name: &str| variables.iter().find(|(k, _)| *k == name).unwrap().1.clone();
        let imds =
            bare(&t.env).with("AZURE_POD_IDENTITY_AUTHORITY_HOST", of("AZURE_POD_IDENTITY_AUTHORITY_HOST"));
        let service = bare(&t.env)
            .with("IDENTITY_ENDPOINT", of("IDENTITY_ENDPOINT"))
            .with("IDENTITY_HEADER", of("IDENTITY_HEADER"));
        for env in [&imds, &service] {
            let machine = client(env).await;
            let refused = machine.arm::<VirtualMachines>().get(&vm).await.unwrap_err();
            assert_eq!(
                (refused.status(), refused.code()),
                (Some(403), Some("AuthorizationFailed")),
                "{refused}"
            );
            assert!(refused.refused().unwrap().detail.message.contains(&system), "{refused}");
        }
        t.assign(&system, READER, &g).await;
        for env in [&imds, &service] {
            let machine = client(env).await;
            machine.arm::<VirtualMachines>().get(&vm).await.unwrap();
            let refused = machine.arm::<VirtualMachines>().deallocate(&vm).await.unwrap_err();
            assert_eq!(refused.status(), Some(403), "it may read, not write");
            // A token for another service, by the same way.
            let secrets = machine.vault(vault_id.name()).unwrap().secrets();
            assert_eq!(secrets.get("s").await.unwrap_err().reason(), Some("ForbiddenByRbac"));
            let as_user = client(&env.clone().with("AZURE_CLIENT_ID", user_client.as_str())).await;
            assert_eq!(
                as_user.arm::<VirtualMachines>().get(&vm).await.unwrap_err().status(),
                Some(403),
                "another identity"
            );
        }
        t.assign(&user_principal, SECRETS_USER, &vault_id).await;
        for env in [&imds, &service] {
            let as_user = client(&env.clone().with("AZURE_CLIENT_ID", user_client.as_str())).await;
            let got = as_user.vault(vault_id.name()).unwrap().secrets().get("s").await.unwrap();
            assert_eq!(got.value.unwrap().expose(), "of the vault");
            let unknown =
                client(&env.clone().with("AZURE_CLIENT_ID", "00000000-0000-0000-0000-000000000000")).await;
            let refused = unknown.arm::<VirtualMachines>().get(&vm).await.unwrap_err();
            assert!(matches!(refused, Error::Token { .. }), "{refused:?}");
        }
        let wrong = client(&service.with("IDENTITY_HEADER", "guessed")).await;
        assert!(matches!(wrong.arm::<VirtualMachines>().get(&vm).await, Err(Error::Token { .. })));
    })
    .await;
}

fn signed_in(t: &Target, client_id: &str, proof: Proof) -> Client {
    let http = Http::new(&HttpOptions::from_env(&t.env)).unwrap();
    let cloud = t.client.cloud().clone();
    let entra = Entra { http: http.clone(), login: cloud.login.clone(), timing: Timing::system() };
    let source = Confidential::new(entra, t.env.get("AZURE_TENANT_ID").unwrap(), client_id, proof);
    Client::new(cloud, http, Credential::new(source, Timing::system()), ClientOptions::default())
}

#[tokio::test]
async fn a_certificate_of_a_vault_is_good_for_tokens() {
    let t = target().await;
    let Some(sim) = t.only_sim("it makes an application") else { return };
    t.in_group("certificate", async |g: ResourceId| {
        let (_, vault) = vault(&t, &g).await;
        for (name, policy) in [
            ("pfx", CertificatePolicy::self_signed("CN=zaffre")),
            ("pem", CertificatePolicy::self_signed("CN=zaffre").pem()),
        ] {
            let made = vault.certificates().create(name, &policy).await.unwrap();
            let (app, object) = sim.world().add_app(name, "unused", vec![made.der.clone()]);
            sim.world().assign(&object, READER, g.as_str());
            let (secret, version) = made.secret().unwrap();
            let held = vault.secrets().get_version(secret, version).await.unwrap().value.unwrap();
            let certificate = Certificate::read_text(held.expose()).unwrap();
            let by_certificate = signed_in(&t, &app, Proof::Certificate(certificate.into()));
            by_certificate.arm::<ResourceGroups>().get(&g).await.unwrap();
            // Another certificate of the same name is another certificate.
            let other = vault.certificates().create(name, &policy).await.unwrap();
            assert_ne!(other.version(), made.version());
            let held = vault.secrets().get(name).await.unwrap().value.unwrap();
            let certificate = Certificate::read_text(held.expose()).unwrap();
            let refused = signed_in(&t, &app, Proof::Certificate(certificate.into()));
            let refused = refused.arm::<ResourceGroups>().get(&g).await.unwrap_err();
            let Error::Token { source, .. } = &refused else { panic!("{refused:?}") };
            assert_eq!(source.entra().map(|e| e.fault), Some(EntraFault::UnknownCertificate), "{refused:?}");
        }
    })
    .await;
}

struct Issuer {
    key: EncodingKey,
    jwk: Jwk,
}

fn issuer() -> Issuer {
    let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let key = EncodingKey::from_rsa_pem(key.serialize_pem().as_bytes()).unwrap();
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
    jwk.common.key_id = Some("one".to_owned());
    Issuer { key, jwk }
}

impl Issuer {
    fn token(&self, url: &str) -> String {
        let now = clock::system().now().as_second();
        let claims = json!({"iss": url, "sub": "system:serviceaccount:a:b", "aud": ["openshift"], "exp": now + 600, "nbf": now - 60});
        let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::RS256) };
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }
}

#[tokio::test]
async fn issuers_publish_in_accounts_sites_and_behind_the_front_door() {
    let t = target().await;
    let Some(sim) = t.only_sim("the front door is made by hand") else { return };
    t.in_group("issuers", async |g: ResourceId| {
        let name = t.unique("oidc");
        let body = json!({"location": t.location, "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "properties": {"allowBlobPublicAccess": true}});
        let (account, shown) = make::<StorageAccounts>(&t, &g, &name, body).await;
        let web = shown["properties"]["primaryEndpoints"]["web"].as_str().unwrap().trim_end_matches('/').to_owned();
        let blobs = t.with_role(BLOB_CONTRIBUTOR, &account).await.blobs(&name).unwrap();
        let public = blobs.container("oidc").unwrap();
        public.create(Access::Blob).await.unwrap();
        blobs.set_website(Some(&Website::default())).await.unwrap();
        let site = blobs.container("$web").unwrap();
        let path = "3f6b1f62-22a5-4d6c-8c8f-2f1f1d6b8d11/cluster";
        let door = "region.oic.zaffre.test";
        sim.world().set_front_door(door, FrontDoor::oidc(&[web.trim_start_matches("https://")])).unwrap();
        let issuer = issuer();
        let (user, shown) = make::<UserAssignedIdentities>(&t, &g, "u", json!({"location": t.location})).await;
        let (app, principal) = (shown["properties"]["clientId"].as_str().unwrap(), shown["properties"]["principalId"].as_str().unwrap());
        t.assign(principal, READER, &g).await;
        let fics = t.client.arm::<FederatedCredentials>();
        let dir = tempfile::tempdir().unwrap();
        for (place, url, container, at) in [
            ("blob", format!("{}/oidc/{path}", blobs.endpoint()), &public, path),
            ("site", format!("{web}/{path}/site"), &site, &*format!("{path}/site")),
            ("door", format!("https://{door}/{path}"), &site, path),
        ] {
            let fic = json!({"properties": {"issuer": url, "subject": "system:serviceaccount:a:b", "audiences": ["openshift"]}});
            fics.put(&fics.id(&user, place).unwrap(), &serde_json::from_value(fic).unwrap()).await.unwrap();
            let file = dir.path().join(place);
            std::fs::write(&file, issuer.token(&url)).unwrap();
            let env = bare(&t.env).with("AZURE_TENANT_ID", t.env.get("AZURE_TENANT_ID").unwrap()).with("AZURE_CLIENT_ID", app)
                .with("AZURE_FEDERATED_TOKEN_FILE", file.to_str().unwrap());
            let pod = client(&env).await;
            let refused = pod.arm::<ResourceGroups>().get(&g).await.unwrap_err();
            let Error::Token { source, .. } = &refused else { panic!("{place}: {refused:?}") };
            assert_eq!(source.entra().map(|e| e.fault), Some(EntraFault::IssuerUnreachable), "{place}: nothing is published yet");
            let json = PutOptions::of_type("application/json");
            let jwks = format!("{url}/openid/v1/jwks");
            let document = json!({"issuer": url, "jwks_uri": jwks, "response_types_supported": ["id_token"], "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"]});
            container.put(&format!("{at}/.well-known/openid-configuration"), document.to_string(), &json).await.unwrap();
            container.put(&format!("{at}/openid/v1/jwks"), json!({"keys": [issuer.jwk]}).to_string(), &json).await.unwrap();
            pod.arm::<ResourceGroups>().get(&g).await.unwrap_or_else(|e| panic!("{place}: {e:?}"));
        }
    })
    .await;
}
