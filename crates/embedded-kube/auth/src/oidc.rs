//! Other issuers: the `jwt` authenticators of an AuthenticationConfiguration.
//!
//! Pure: key sets are fetched by whoever embeds this and handed in. Only asymmetric algorithms are taken, and
//! only the one the key itself names, so a token cannot choose how it is verified.

use crate::User;
use ek_schema::cel::{CelInput, Program};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("kind must be AuthenticationConfiguration of apiserver.config.k8s.io, not {0}")]
    Kind(String),
    #[error("jwt[{index}].{field}: {why}")]
    Field { index: usize, field: &'static str, why: String },
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the token is malformed or its signature does not verify")]
    Invalid(#[source] jsonwebtoken::errors::Error),
    #[error("no key of the issuer matches the token")]
    UnknownKey,
    #[error("algorithm {0:?} is not accepted")]
    Algorithm(Algorithm),
    #[error("the token has expired or is not valid yet")]
    Time,
    #[error("the token's issuer or audience is not the configured one")]
    Audience,
    #[error("claim {0:?} is missing or has the wrong type")]
    Claim(String),
    #[error("{0}")]
    Rule(String),
}

#[derive(Debug)]
enum Mapping {
    Claim { name: String, prefix: String },
    Expression(Program),
}

#[derive(Debug)]
enum Rule {
    Required { claim: String, value: String },
    Expression { program: Program, message: String },
}

/// One configured issuer.
#[derive(Debug)]
pub struct JwtAuthenticator {
    pub url: String,
    /// Where discovery lives, when not under the issuer's own URL.
    pub discovery_url: Option<String>,
    /// PEM bundle to trust when fetching.
    pub certificate_authority: Option<String>,
    audiences: Vec<String>,
    username: Mapping,
    groups: Option<Mapping>,
    uid: Option<Mapping>,
    extra: Vec<(String, Program)>,
    claim_rules: Vec<Rule>,
    user_rules: Vec<Rule>,
}

/// Parses a whole configuration.
pub fn parse(config: &Value) -> Result<Vec<JwtAuthenticator>, ConfigError> {
    let api = config["apiVersion"].as_str().unwrap_or_default();
    if config["kind"] != "AuthenticationConfiguration" || !api.starts_with("apiserver.config.k8s.io/") {
        return Err(ConfigError::Kind(format!("{} of {api:?}", config["kind"])));
    }
    config["jwt"].as_array().into_iter().flatten().enumerate().map(|(i, j)| authenticator(i, j)).collect()
}

fn authenticator(index: usize, j: &Value) -> Result<JwtAuthenticator, ConfigError> {
    let bad = |field: &'static str, why: &str| ConfigError::Field { index, field, why: why.to_owned() };
    let url = j["issuer"]["url"].as_str().unwrap_or_default().to_owned();
    if !url.starts_with("https://") {
        return Err(bad("issuer.url", "must be an https URL"));
    }
    let audiences: Vec<String> = ek_meta::object::strings(&j["issuer"]["audiences"]);
    if audiences.is_empty() {
        return Err(bad("issuer.audiences", "at least one is required"));
    }
    let program = |field: &'static str, v: &Value| {
        Program::compile(v.as_str().unwrap_or_default()).map_err(|e| bad(field, &e.to_string()))
    };
    let mapping = |field: &'static str, m: &Value| -> Result<Option<Mapping>, ConfigError> {
        if m["expression"].as_str().is_some_and(|e| !e.is_empty()) {
            return Ok(Some(Mapping::Expression(program(field, &m["expression"])?)));
        }
        Ok(m["claim"].as_str().filter(|c| !c.is_empty()).map(|c| Mapping::Claim {
            name: c.to_owned(),
            prefix: m["prefix"].as_str().unwrap_or_default().to_owned(),
        }))
    };
    let rules = |field: &'static str, list: &Value| -> Result<Vec<Rule>, ConfigError> {
        (list.as_array().into_iter().flatten())
            .map(|r| match r["claim"].as_str() {
                Some(c) => Ok(Rule::Required {
                    claim: c.to_owned(),
                    value: r["requiredValue"].as_str().unwrap_or_default().to_owned(),
                }),
                None => Ok(Rule::Expression {
                    program: program(field, &r["expression"])?,
                    message: r["message"].as_str().unwrap_or("validation expression failed").to_owned(),
                }),
            })
            .collect()
    };
    let maps = &j["claimMappings"];
    Ok(JwtAuthenticator {
        username: mapping("claimMappings.username", &maps["username"])?
            .ok_or_else(|| bad("claimMappings.username", "claim or expression is required"))?,
        groups: mapping("claimMappings.groups", &maps["groups"])?,
        uid: mapping("claimMappings.uid", &maps["uid"])?,
        extra: (maps["extra"].as_array().into_iter().flatten())
            .map(|e| {
                let key = e["key"].as_str().unwrap_or_default().to_owned();
                Ok((key, program("claimMappings.extra", &e["valueExpression"])?))
            })
            .collect::<Result<_, ConfigError>>()?,
        claim_rules: rules("claimValidationRules", &j["claimValidationRules"])?,
        user_rules: rules("userValidationRules", &j["userValidationRules"])?,
        discovery_url: j["issuer"]["discoveryURL"].as_str().filter(|u| !u.is_empty()).map(str::to_owned),
        certificate_authority: j["issuer"]["certificateAuthority"]
            .as_str()
            .filter(|u| !u.is_empty())
            .map(str::to_owned),
        url,
        audiences,
    })
}

impl JwtAuthenticator {
    /// Where the discovery document is.
    pub fn discovery_document(&self) -> String {
        self.discovery_url
            .clone()
            .unwrap_or_else(|| format!("{}/.well-known/openid-configuration", self.url.trim_end_matches('/')))
    }

    /// The user a token stands for, verified against the issuer's keys.
    pub fn authenticate(&self, token: &str, keys: &JwkSet, now: i64) -> Result<User, TokenError> {
        let claims = self.verify(token, keys, now)?;
        for r in &self.claim_rules {
            check(r, "claims", &claims)?;
        }
        let username = match self.map(&self.username, &claims, "username")? {
            Value::String(s) if !s.is_empty() => s,
            _ => return Err(TokenError::Claim("username".into())),
        };
        let mut user = User::new(&username, &[]);
        if let Some(m) = &self.groups {
            user.groups = strings(&self.map(m, &claims, "groups")?);
        }
        if let Some(m) = &self.uid
            && let Value::String(s) = self.map(m, &claims, "uid")?
        {
            user.uid = s;
        }
        for (key, program) in &self.extra {
            let v = evaluate(program, "claims", &claims)?;
            let list = strings(&v);
            if !list.is_empty() {
                user.extra.insert(key.clone(), list);
            }
        }
        let as_json =
            json!({"username": user.name, "groups": user.groups, "uid": user.uid, "extra": user.extra});
        for r in &self.user_rules {
            check(r, "user", &as_json)?;
        }
        Ok(user.authenticated())
    }

    fn verify(&self, token: &str, keys: &JwkSet, now: i64) -> Result<Value, TokenError> {
        let header = jsonwebtoken::decode_header(token).map_err(TokenError::Invalid)?;
        use Algorithm::{ES256, ES384, PS256, PS384, PS512, RS256, RS384, RS512};
        if !matches!(header.alg, RS256 | RS384 | RS512 | ES256 | ES384 | PS256 | PS384 | PS512) {
            return Err(TokenError::Algorithm(header.alg));
        }
        let candidates: Vec<_> = match &header.kid {
            Some(kid) => keys.find(kid).into_iter().collect(),
            None => keys.keys.iter().collect(),
        };
        let mut v = Validation::new(header.alg);
        v.validate_exp = false;
        v.validate_nbf = false;
        v.validate_aud = false;
        v.required_spec_claims.clear();
        let mut last = TokenError::UnknownKey;
        let mut claims = None;
        for jwk in candidates {
            let Ok(key) = DecodingKey::from_jwk(jwk) else { continue };
            match jsonwebtoken::decode::<Value>(token, &key, &v) {
                Ok(t) => {
                    claims = Some(t.claims);
                    break;
                }
                Err(e) => last = TokenError::Invalid(e),
            }
        }
        let claims = claims.ok_or(last)?;
        let aud = match &claims["aud"] {
            Value::String(s) => vec![s.clone()],
            other => strings(other),
        };
        if claims["iss"] != self.url.as_str() || !aud.iter().any(|a| self.audiences.contains(a)) {
            return Err(TokenError::Audience);
        }
        let exp = claims["exp"].as_i64().unwrap_or(0);
        let nbf = claims["nbf"].as_i64().unwrap_or(0);
        if exp <= now || nbf > now + 60 {
            return Err(TokenError::Time);
        }
        Ok(claims)
    }

    fn map(&self, m: &Mapping, claims: &Value, what: &str) -> Result<Value, TokenError> {
        match m {
            Mapping::Expression(p) => evaluate(p, "claims", claims),
            Mapping::Claim { name, prefix } => match &claims[name] {
                Value::String(s) if what == "groups" => Ok(json!([format!("{prefix}{s}")])),
                Value::String(s) => Ok(json!(format!("{prefix}{s}"))),
                Value::Array(a) if what == "groups" => {
                    Ok(a.iter().filter_map(Value::as_str).map(|g| json!(format!("{prefix}{g}"))).collect())
                }
                Value::Null if what == "groups" => Ok(json!([])),
                _ => Err(TokenError::Claim(name.clone())),
            },
        }
    }
}

fn strings(v: &Value) -> Vec<String> {
    match v {
        Value::String(s) if !s.is_empty() => vec![s.clone()],
        Value::Array(a) => {
            a.iter().filter_map(Value::as_str).filter(|s| !s.is_empty()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

fn evaluate(p: &Program, name: &str, v: &Value) -> Result<Value, TokenError> {
    p.evaluate_json(&[(name, v)]).map_err(|e| TokenError::Rule(format!("{}: {e}", p.source())))
}

fn check(rule: &Rule, name: &str, v: &Value) -> Result<(), TokenError> {
    match rule {
        Rule::Required { claim, value } => match v[claim] == value.as_str() {
            true => Ok(()),
            false => Err(TokenError::Claim(claim.clone())),
        },
        Rule::Expression { program, message } => match program.evaluate_bool(&[(name, CelInput::Json(v))]) {
            Ok(true) => Ok(()),
            Ok(false) => Err(TokenError::Rule(message.clone())),
            Err(e) => Err(TokenError::Rule(e.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::generate_key;
    use jsonwebtoken::jwk::Jwk;
    use jsonwebtoken::{EncodingKey, Header};

    fn setup() -> (EncodingKey, JwkSet) {
        let pem = generate_key().unwrap();
        let key = EncodingKey::from_ec_pem(pem.expose().as_bytes()).unwrap();
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some("k1".into());
        (key, JwkSet { keys: vec![jwk] })
    }

    fn config() -> Value {
        json!({"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration", "jwt": [{
            "issuer": {"url": "https://id.example", "audiences": ["zaffre"]},
            "claimMappings": {"username": {"claim": "email", "prefix": "oidc:"},
                "groups": {"expression": "claims.roles.map(r, 'g:' + r)"},
                "extra": [{"key": "example.com/tenant", "valueExpression": "claims.tid"}]},
            "claimValidationRules": [{"claim": "hd", "requiredValue": "example"},
                {"expression": "claims.tid != 'bad'", "message": "tenant is blocked"}],
            "userValidationRules": [{"expression": "!user.username.startsWith('system:')"}]}]})
    }

    #[test]
    fn claims_become_users() {
        let (key, keys) = setup();
        let a = parse(&config()).unwrap().pop().unwrap();
        let sign = |edit: &dyn Fn(&mut Value)| {
            let mut c = json!({"iss": "https://id.example", "aud": ["zaffre"], "exp": 100, "email": "a@x", "roles": ["dev"],
                "hd": "example", "tid": "t1"});
            edit(&mut c);
            let header = Header { kid: Some("k1".into()), ..Header::new(Algorithm::ES256) };
            jsonwebtoken::encode(&header, &c, &key).unwrap()
        };
        let u = a.authenticate(&sign(&|_| {}), &keys, 50).unwrap();
        assert_eq!(u.name, "oidc:a@x");
        assert_eq!(u.groups, ["g:dev", crate::AUTHENTICATED]);
        assert_eq!(u.extra["example.com/tenant"], ["t1"]);
        let fails =
            |edit: &dyn Fn(&mut Value)| a.authenticate(&sign(edit), &keys, 50).unwrap_err().to_string();
        assert!(fails(&|c| c["tid"] = json!("bad")).contains("blocked"));
        assert!(fails(&|c| c["hd"] = json!("x")).contains("hd"));
        assert!(fails(&|c| c["aud"] = json!("x")).contains("audience"));
        assert!(fails(&|c| c["exp"] = json!(10)).contains("expired"));
        assert!(a.authenticate(&sign(&|_| {}), &setup().1, 50).is_err());
        let hs =
            jsonwebtoken::encode(&Header::new(Algorithm::HS256), &json!({}), &EncodingKey::from_secret(b"x"));
        if let Ok(hs) = hs {
            assert!(matches!(a.authenticate(&hs, &keys, 50), Err(TokenError::Algorithm(_))));
        }
    }

    #[test]
    fn bad_configuration_is_named() {
        let mut c = config();
        c["jwt"][0]["issuer"]["url"] = json!("http://x");
        assert!(parse(&c).unwrap_err().to_string().contains("jwt[0].issuer.url"));
        assert!(parse(&json!({"kind": "X"})).is_err());
    }
}
