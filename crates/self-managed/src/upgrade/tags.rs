//! From a version to the image that is it.

/// Endings of tags by architecture of the payload, as `status.payloadArch` names them.
const ENDINGS: [(&str, &str); 5] = [
    ("Multi", "multi"),
    ("AMD64", "x86_64"),
    ("ARM64", "aarch64"),
    ("PPC64LE", "ppc64le"),
    ("S390X", "s390x"),
];

/// Where a version would be: beside the release that runs, under the names that releases have. `arch` is the payload's;
/// what fits a cluster best comes first.
pub fn candidates(current: &str, version: &str, arch: &str) -> Vec<String> {
    let bare = current.split('@').next().unwrap_or_default();
    let repository = match bare.rsplit_once(':') {
        // A colon in the host is a port.
        Some((before, after)) if !after.contains('/') => before,
        _ => bare,
    };
    let own = ENDINGS.iter().find(|(name, _)| name.eq_ignore_ascii_case(arch)).map(|(_, ending)| *ending);
    let mut endings: Vec<&str> = own.into_iter().collect();
    endings.extend(["multi", "x86_64"].iter().filter(|e| Some(**e) != own));
    let mut out = vec![format!("{repository}:{version}")];
    // A payload of one other architecture would be refused later.
    if own.is_some_and(|o| !matches!(o, "multi" | "x86_64")) {
        endings.retain(|e| *e != "x86_64");
    }
    out.extend(endings.iter().map(|e| format!("{repository}:{version}-{e}")));
    out
}
