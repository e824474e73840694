//! The Ignition config in a machine's customData: where the rest is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde_json::Value;

/// Where a machine fetches its config.
pub(super) struct Stub {
    pub(super) source: Uri,
    pub(super) headers: HeaderMap,
    /// Authorities of the server, PEM.
    pub(super) authorities: String,
}

/// What a machine was made with.
pub(super) enum CustomData {
    /// Nothing that concerns us: not every machine is a node.
    Other,
    Stub(Stub),
    /// An Ignition config that cannot be followed, and why.
    Broken(String),
}

pub(super) fn read(encoded: Option<&str>) -> CustomData {
    let bytes = encoded.and_then(|e| STANDARD.decode(e.trim()).ok()).unwrap_or_default();
    let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return CustomData::Other };
    if !value["ignition"].is_object() {
        return CustomData::Other;
    }
    match stub(&value) {
        Ok(Some(stub)) => CustomData::Stub(stub),
        Ok(None) => CustomData::Other,
        Err(why) => CustomData::Broken(why),
    }
}

fn stub(value: &Value) -> Result<Option<Stub>, String> {
    let ignition = &value["ignition"];
    let merge = &ignition["config"]["merge"][0];
    let Some(source) = merge["source"].as_str() else { return Ok(None) };
    let uri: Uri =
        source.parse().map_err(|_| format!("ignition.config.merge[0].source {source:?} is no URL"))?;
    if uri.scheme_str() != Some("https") || uri.host().is_none() {
        return Err(format!("ignition.config.merge[0].source {source:?} is no https URL"));
    }
    let mut headers = HeaderMap::new();
    for h in merge["httpHeaders"].as_array().into_iter().flatten() {
        let name = h["name"].as_str().and_then(|n| n.parse::<HeaderName>().ok());
        let value = h["value"].as_str().and_then(|v| HeaderValue::from_str(v).ok());
        if let (Some(name), Some(mut value)) = (name, value) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    let mut authorities = String::new();
    for ca in ignition["security"]["tls"]["certificateAuthorities"].as_array().into_iter().flatten() {
        let source = ca["source"].as_str().unwrap_or_default();
        let text = super::payload::data_url(source).ok_or("a certificate authority is no data URL")?;
        authorities += &String::from_utf8_lossy(&text);
        authorities.push('\n');
    }
    Ok(Some(Stub { source: uri, headers, authorities }))
}
