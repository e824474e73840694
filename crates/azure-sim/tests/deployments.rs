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

/// A group of rules, and inside a deployment of its own a network that refers to them.
fn nested(scope: &str) -> Value {
    let (parameters, rules) = match scope {
        "inner" => (
            json!({"id": {"value": "[resourceId('Microsoft.Network/networkSecurityGroups', parameters('name'))]"}}),
            "[parameters('id')]",
        ),
        _ => (json!({}), "[resourceId('Microsoft.Network/networkSecurityGroups', parameters('name'))]"),
    };
    let declared = if scope == "inner" { json!({"id": {"type": "string"}}) } else { json!({}) };
    json!({
        "parameters": {"name": {"type": "string"}, "tag": {"type": "string", "defaultValue": "one"}, "key": {"type": "secureString", "defaultValue": ""}},
        "resources": [
            {"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "inside",
                "dependsOn": ["[parameters('name')]"],
                "properties": {"mode": "Incremental", "expressionEvaluationOptions": {"scope": scope}, "parameters": parameters, "template": {
                    "parameters": declared,
                    "resources": [{"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2024-05-01", "name": "net", "location": "westus2",
                        "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
                            "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24", "networkSecurityGroup": {"id": rules}}}]}}],
                    "outputs": {"where": {"type": "string", "value": "[resourceGroup().name]"}}}}},
            {"type": "Microsoft.Network/networkSecurityGroups", "apiVersion": "2024-05-01", "name": "[parameters('name')]",
                "location": "westus2", "tags": {"t": "[parameters('tag')]"}, "properties": {}},
            {"type": "Microsoft.Network/routeTables", "apiVersion": "2024-05-01", "name": "routes", "location": "westus2",
                "tags": {"from": "[reference('inside').outputs.where.value]"}, "properties": {}},
        ],
        "outputs": {"where": {"type": "string", "value": "[reference('inside').outputs.where.value]"}},
    })
}

fn with(template: &Value, parameters: Value) -> Value {
    json!({"properties": {"mode": "Incremental", "template": template, "parameters": parameters}})
}

#[tokio::test]
async fn a_deployment_in_a_deployment() {
    let lab = lab(Profile::Instant).await;
    for scope in ["inner", "outer"] {
        let g = lab.group(scope);
        let url = format!("{}?{V}", at(&g, "d"));
        let given = with(&nested(scope), json!({"name": {"value": "rules"}, "key": {"value": "hush"}}));
        let made = lab.ask("PUT", &url, Some(&given));
        assert_eq!(
            (made.status.as_u16(), status(&lab, &made)["status"].as_str()),
            (201, Some("Succeeded")),
            "{made:?}"
        );
        let shown = lab.ask("GET", &url, None).body.unwrap();
        assert_eq!(shown["properties"]["outputs"]["where"]["value"], scope);
        assert_eq!(
            shown["properties"]["parameters"]["key"],
            json!({"type": "secureString"}),
            "secrets are not shown"
        );
        let network = format!("{g}/providers/Microsoft.Network");
        let net = lab
            .ask("GET", &format!("{network}/virtualNetworks/net?api-version=2024-05-01"), None)
            .body
            .unwrap();
        let rules =
            net["properties"]["subnets"][0]["properties"]["networkSecurityGroup"]["id"].as_str().unwrap();
        assert!(rules.ends_with("/rules"), "{rules}");
        let routes = lab.ask("GET", &format!("{network}/routeTables/routes?api-version=2024-05-01"), None);
        assert_eq!(routes.body.unwrap()["tags"]["from"], scope, "what it refers to came first");
        let steps = lab.ask("GET", &format!("{g}/deployments/d/operations?{V}"), None).body.unwrap();
        let kinds: Vec<&str> = steps["value"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["properties"]["targetResource"]["resourceType"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "Microsoft.Network/networkSecurityGroups",
                "Microsoft.Resources/deployments",
                "Microsoft.Network/routeTables"
            ]
        );
    }
    // Too deep, and too many, is refused before anything is made by the one that is too much.
    let g = lab.group("deep");
    let mut template = json!({"resources": [{"type": "Microsoft.Network/routeTables", "apiVersion": "2024-05-01", "name": "bottom", "location": "westus2"}]});
    for i in 0..8 {
        template = json!({"resources": [{"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": format!("d{i}"),
            "properties": {"mode": "Incremental", "expressionEvaluationOptions": {"scope": "inner"}, "template": template}}]});
    }
    let made = lab.ask("PUT", &format!("{}?{V}", at(&g, "d")), Some(&with(&template, json!({}))));
    assert_eq!(status(&lab, &made)["status"], "Failed");
    let bottom = lab.ask(
        "GET",
        &format!("{g}/providers/Microsoft.Network/routeTables/bottom?api-version=2024-05-01"),
        None,
    );
    assert_eq!(bottom.status, 404);
}

#[tokio::test]
async fn what_if_tells_and_does_nothing() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let ask = |tag: &str, more: Value| {
        let mut given = with(&nested("inner"), json!({"name": {"value": "rules"}, "tag": {"value": tag}}));
        given["properties"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let accepted = lab.ask("POST", &format!("{}?{V}", at(&g, "d/whatIf")), Some(&given));
        assert_eq!(accepted.status, 202, "{accepted:?}");
        let done = lab.ask("GET", accepted.headers["location"].to_str().unwrap(), None);
        assert_eq!(done.status, 200);
        done.body.unwrap()
    };
    let kinds = |told: &Value| {
        let each = |c: &Value| {
            let id = c["resourceId"].as_str().unwrap();
            (id.rsplit('/').next().unwrap().to_owned(), c["changeType"].as_str().unwrap().to_owned())
        };
        told["properties"]["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(each)
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    let told = ask("one", json!({}));
    assert!(kinds(&told).values().all(|c| c == "Create") && kinds(&told).len() == 3, "{told}");
    let leaks = lab.world.leaks();
    assert_eq!(leaks["value"].as_array().unwrap().len(), 1, "nothing was made: {leaks}");
    lab.ask(
        "PUT",
        &format!("{}?{V}", at(&g, "d")),
        Some(&with(&nested("inner"), json!({"name": {"value": "rules"}}))),
    );
    let more = json!({"location": "westus2"});
    lab.ask(
        "PUT",
        &format!("{g}/providers/Microsoft.Network/routeTables/other?api-version=2024-05-01"),
        Some(&more),
    );
    let told = ask("two", json!({}));
    let want = [("net", "NoChange"), ("other", "Ignore"), ("routes", "NoChange"), ("rules", "Modify")];
    assert_eq!(kinds(&told), want.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
    let changes = told["properties"]["changes"].as_array().unwrap();
    let delta = &changes.iter().find(|c| c["changeType"] == "Modify").unwrap()["delta"];
    assert_eq!(
        *delta,
        json!([{"path": "tags.t", "propertyChangeType": "Modify", "before": "one", "after": "two"}])
    );
    let brief = ask("two", json!({"whatIfSettings": {"resultFormat": "ResourceIdOnly"}}));
    assert!(brief["properties"]["changes"].as_array().unwrap().iter().all(|c| c.get("after").is_none()));
}

/// The Azure CLI does not change what a person wrote.
#[tokio::test]
async fn templates_with_comments_and_bare_names() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let text = r#"{"properties": {"mode": "Incremental", "parameters": {"name": {"value": "lb"}}, template:{ // mine
        "parameters": {"name": {"type": "string"}}, /* no more */ "resources": [],}}}"#;
    let mut call = crate::support::call("PUT", &format!("{}?{V}", at(&g, "d")), &lab.token, None);
    call.body = text.as_bytes().to_vec().into();
    assert_eq!(lab.world.arm(&call).status, 201);
    call.body = text.replace("template:{", "template:}").into();
    assert_eq!(code(&lab.world.arm(&call)), "InvalidRequestContent");
    let wrong = with(&json!({"resources": []}), json!({"other": {"value": 1}}));
    let refused = lab.ask("PUT", &format!("{}?{V}", at(&g, "e")), Some(&wrong));
    assert_eq!(code(&refused), "InvalidTemplate", "a parameter that the template does not have");
}

/// What a template makes meets the same troubles as what a caller makes; what is only thought of meets none.
#[tokio::test]
async fn faults_meet_what_a_template_makes() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let given = body(&template());
    let url = format!("{}?{V}", at(&g, "d"));
    let deploy = || {
        let made = lab.ask("PUT", &url, Some(&given));
        assert!(made.status.is_success(), "{made:?}");
        status(&lab, &made)
    };
    let rules = azure_sim::faults! {
        "quota" => {"match": {"type": "Microsoft.Network/publicIPAddresses", "times": 1}, "then": {"answer": {"status": 400, "code": "PublicIPCountLimitReached"}}},
        "late" => {"match": {"type": "Microsoft.Network/publicIPAddresses", "times": 1}, "then": {"failLate": {"code": "InternalServerError"}}},
    };
    lab.world.add_faults(rules.unwrap()).unwrap();
    let accepted = lab.ask("POST", &format!("{}?{V}", at(&g, "d/whatIf")), Some(&given));
    let told = lab.ask("GET", accepted.headers["location"].to_str().unwrap(), None).body.unwrap();
    assert_eq!(told["status"], "Succeeded", "{told}");
    let first = deploy();
    assert_eq!(
        (&first["status"], &first["error"]["details"][0]["code"]),
        (&json!("Failed"), &json!("PublicIPCountLimitReached"))
    );
    let second = deploy();
    assert_eq!(
        (&second["status"], &second["error"]["details"][0]["code"]),
        (&json!("Failed"), &json!("InternalServerError"))
    );
    assert_eq!(deploy()["status"], "Succeeded");
}
