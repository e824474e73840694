//! Named formats: `format.dns1123Label().validate('x')` is an optional list of what is wrong.

use super::error::Res;
use super::table::{Entry, Site, function, method, text};
use super::value::Val;
use base64::Engine;
use ek_meta::names;

pub(super) const TABLE: &[Entry] = &[
    function("format.named", 1, 1, named).returning("optional_type"),
    function("format.dns1123Label", 0, 0, known),
    function("format.dns1123Subdomain", 0, 0, known),
    function("format.dns1035Label", 0, 0, known),
    function("format.dns1123LabelPrefix", 0, 0, known),
    function("format.dns1123SubdomainPrefix", 0, 0, known),
    function("format.dns1035LabelPrefix", 0, 0, known),
    function("format.qualifiedName", 0, 0, known),
    function("format.labelValue", 0, 0, known),
    function("format.uri", 0, 0, known),
    function("format.uuid", 0, 0, known),
    function("format.byte", 0, 0, known),
    function("format.date", 0, 0, known),
    function("format.datetime", 0, 0, known),
    method("validate", 1, 1, validate).returning("optional_type"),
];

fn known<'a>(site: &Site<'_>, _: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Format(site.name.strip_prefix("format.").unwrap_or(site.name)))
}

fn named<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let want = text(site, args, 0)?;
    let found =
        TABLE.iter().filter_map(|e| e.name.strip_prefix("format.")).find(|n| *n == want && *n != "named");
    Ok(found.map_or(Val::Optional(None), |n| Val::some(Val::Format(n))))
}

fn validate<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Format(name) = &args[0] else { return site.no_overload(args) };
    let s = text(site, args, 1)?;
    site.charge_text(s.len() * 3)?;
    // A name prefix may end in the dash its suffix follows.
    let prefix = |s: &str| s.strip_suffix('-').map_or_else(|| s.to_owned(), |p| format!("{p}a"));
    let one = |ok: bool, msg: &str| if ok { Vec::new() } else { vec![msg.to_owned()] };
    let wrong = match *name {
        "dns1123Label" => names::dns_label(s),
        "dns1123LabelPrefix" => names::dns_label(&prefix(s)),
        "dns1123Subdomain" => names::dns_subdomain(s),
        "dns1123SubdomainPrefix" => names::dns_subdomain(&prefix(s)),
        "dns1035Label" => names::dns_1035_label(s),
        "dns1035LabelPrefix" => names::dns_1035_label(&prefix(s)),
        "qualifiedName" => names::qualified_name(s),
        "labelValue" => names::label_value(s),
        "uri" => one(super::urls::parse(s).is_some(), "invalid URI"),
        "uuid" => one(crate::formats::valid("uuid", s), "does not match the UUID format"),
        "byte" => one(base64::engine::general_purpose::STANDARD.decode(s).is_ok(), "invalid base64"),
        "date" => one(crate::formats::valid("date", s), "invalid date"),
        _ => one(crate::formats::valid("date-time", s), "invalid datetime"),
    };
    Ok(if wrong.is_empty() {
        Val::Optional(None)
    } else {
        Val::some(Val::list(wrong.into_iter().map(Val::str).collect()))
    })
}
