//! Templates in a group: what they make, in whose name, and how they fail.

use crate::support::{Lab, code, lab};
use azure_sim::{Profile, Reply};
use serde_json::{Value, json};

const V: &str = "api-version=2024-11-01";

/// An address, and a balancer that needs it.
fn template() -> Value {
    json!({
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "parameters": {"name": {"type": "string"}, "place": {"type": "string", "defaultValue": "[resourceGroup().location]"}},
        "variables": {"pip": "[concat(parameters('name'), '-ip')]"},
        "resources": [
            {"type": "Microsoft.Network/loadBalancers", "apiVersion": "2024-05-01", "name": "[parameters('name')]",
                "location": "[parameters('place')]", "sku": {"name": "Standard"},
                "dependsOn": ["[resourceId('Microsoft.Network/publicIPAddresses', variables('pip'))]"],
                "properties": {"frontendIPConfigurations": [{"name": "f", "properties": {"publicIPAddress":
                    {"id": "[resourceId('Microsoft.Network/publicIPAddresses', variables('pip'))]"}}}]}},
            {"type": "Microsoft.Network/publicIPAddresses", "apiVersion": "2024-05-01", "name": "[variables('pip')]",
                "location": "[parameters('place')]", "sku": {"name": "Standard"},
                "properties": {"publicIPAllocationMethod": "Static"}},
        ],
        "outputs": {"balancer": {"type": "object", "value": "[reference(parameters('name'))]"}},
    })
}

fn body(template: &Value) -> Value {
    json!({"properties": {"mode": "Incremental", "template": template, "parameters": {"name": {"value": "lb"}}}})
}

fn at(group: &str, rest: &str) -> String {
    format!("{group}/providers/Microsoft.Resources/deployments/{rest}")
}

fn status(lab: &Lab, accepted: &Reply) -> Value {
    let url = accepted.headers["azure-asyncoperation"].to_str().unwrap();
    lab.ask("GET", url, None).body.unwrap()
}

#[tokio::test]
async fn a_template_is_made_in_order_and_has_outputs() {
    let lab = lab(Profile::Real).await;
    let g = lab.group("g");
    let url = format!("{}?{V}", at(&g, "d"));
    let made = lab.ask("PUT", &url, Some(&body(&template())));
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.body.as_ref().unwrap()["properties"]["provisioningState"], "Accepted");
    assert_eq!(status(&lab, &made)["status"], "InProgress");
    lab.pass(60);
    assert_eq!(status(&lab, &made)["status"], "Succeeded");
    let done = lab.ask("GET", &url, None).body.unwrap();
    assert_eq!(done["properties"]["provisioningState"], "Succeeded");
    let balancer = &done["properties"]["outputs"]["balancer"]["value"];
    assert_eq!(balancer["frontendIPConfigurations"][0]["name"], "f");
    let listed = lab.ask("GET", &format!("{}?{V}", at(&g, "").trim_end_matches('/')), None).body.unwrap();
    assert_eq!(listed["value"][0]["name"], "d");
    // Again is an update, and changes nothing.
    assert_eq!(lab.ask("PUT", &url, Some(&body(&template()))).status, 200);
    assert_eq!(
        lab.ask("POST", &format!("{}?{V}", at(&g, "d/validate")), Some(&body(&template()))).status,
        200
    );
}

#[tokio::test]
async fn a_template_is_deployed_in_the_name_of_its_caller() {
    const NETWORK_READER: &str = "acdd72a7-3385-48ef-bd42-f606fba81ae7";
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let role = json!({"properties": {"roleName": "Deployer", "type": "CustomRole", "permissions":
        [{"actions": ["Microsoft.Resources/deployments/*", "Microsoft.Network/publicIPAddresses/*"]}],
        "assignableScopes": [g]}});
    let id = "1f0e2d3c-4b5a-4697-8877-665544332211";
    let url = format!("{g}/providers/Microsoft.Authorization/roleDefinitions/{id}?api-version=2022-04-01");
    assert_eq!(lab.ask("PUT", &url, Some(&role)).status, 201);
    let (client, object) = lab.world.add_app("deployer", "s3cret", Vec::new());
    lab.world.assign(&object, NETWORK_READER, &g);
    let token = lab.world.token_for(&client, "s3cret").await;
    let url = format!("{}?{V}", at(&g, "d"));
    let refused = lab.ask_as(&token, "PUT", &url, Some(&body(&template())));
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (403, "AuthorizationFailed"));
    lab.world.assign(&object, id, &g);
    let made = lab.ask_as(&token, "PUT", &url, Some(&body(&template())));
    assert_eq!(made.status, 201, "{made:?}");
    // What it may make is made; the rest is refused when the deployment ends.
    let ended = status(&lab, &made);
    assert_eq!(ended["status"], "Failed");
    assert_eq!(ended["error"]["code"], "DeploymentFailed");
    assert_eq!(ended["error"]["details"][0]["code"], "AuthorizationFailed");
    let network = format!("{g}/providers/Microsoft.Network");
    let get = |what: &str| lab.ask("GET", &format!("{network}/{what}?api-version=2024-05-01"), None).status;
    assert_eq!((get("publicIPAddresses/lb-ip").as_u16(), get("loadBalancers/lb").as_u16()), (200, 404));
    assert_eq!(lab.ask("GET", &url, None).body.unwrap()["properties"]["provisioningState"], "Failed");
}

#[tokio::test]
async fn templates_that_cannot_be_read_change_nothing() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let url = format!("{}?{V}", at(&g, "d"));
    let refused = |body: &Value| {
        let reply = lab.ask("PUT", &url, Some(body));
        assert_eq!(reply.status, 400, "{body}");
        code(&reply)
    };
    let with = |resources: Value| body(&json!({"resources": resources}));
    let one = |name: &str| json!({"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2024-05-01", "name": name});
    let invalid = [
        with(json!("none")),
        with(json!([{"type": "x"}])),
        with(json!([one("[nonsense()]")])),
        with(json!([one("a/b")])),
        with(json!([one("[parameters('absent')]")])),
        with(json!([{"type": "A.B/c", "apiVersion": "2020-01-01", "name": "x", "copy": {"count": 3}}])),
    ];
    for body in &invalid {
        assert_eq!(refused(body), "InvalidTemplate", "{body}");
    }
    for properties in
        [json!({}), json!({"mode": "Complete"}), json!({"mode": "Incremental", "template": "{"})]
    {
        assert_eq!(refused(&json!({"properties": properties})), "InvalidRequestContent");
    }
    assert_eq!(code(&lab.ask("GET", &url, None)), "DeploymentNotFound");
    assert_eq!(lab.world.leaks()["value"].as_array().unwrap().len(), 1, "the group alone");
}
