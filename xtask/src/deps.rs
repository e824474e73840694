//! `xtask deps`: every crate inherits what the workspace decides.
//!
//! Versions, lints and the reason for each dependency have one home, the root manifest. That holds only as
//! long as something looks, because a crate that forgets `[lints] workspace = true` compiles just as well,
//! and more quietly.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// What each package takes from `[workspace.package]`.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];
const DEPENDENCY_TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

pub(crate) fn run() -> Result<()> {
    let root = testkit::tools::workspace_root();
    let complaints = check(&root)?;
    if complaints.is_empty() {
        return Ok(());
    }
    bail!("{} manifest complaints:\n  {}", complaints.len(), complaints.join("\n  "))
}

fn read(path: &Path) -> Result<(String, Table)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let table = text.parse().with_context(|| format!("cannot parse {}", path.display()))?;
    Ok((text, table))
}

/// Everything that is wrong with the workspace at `root`, in words.
fn check(root: &Path) -> Result<Vec<String>> {
    let (text, manifest) = read(&root.join("Cargo.toml"))?;
    let workspace = manifest.get("workspace").and_then(Value::as_table).context("no [workspace]")?;
    // Our own crates are listed so that they can be used; a crate nobody links yet is not a mistake.
    let foreign = |(name, value): (&String, &Value)| value.get("path").is_none().then(|| name.clone());
    let known: BTreeSet<String> = table(workspace, "dependencies").iter().filter_map(foreign).collect();

    let mut complaints = unexplained(&text);
    let mut used = BTreeSet::new();
    for path in members(root, workspace)? {
        let (_, member) = read(&path)?;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        complaints.extend(inherits(&member).into_iter().map(|c| format!("{name}: {c}")));
        for (dependency, value) in dependencies(&member) {
            if value.get("workspace").and_then(Value::as_bool) != Some(true) {
                complaints.push(format!("{name}: {dependency} must be `{dependency}.workspace = true`"));
            }
            used.insert(dependency.clone());
        }
    }
    complaints.extend(known.difference(&used).map(|d| format!("Cargo.toml: no member uses {d}; remove it")));
    Ok(complaints)
}

fn table<'a>(parent: &'a Table, key: &str) -> std::borrow::Cow<'a, Table> {
    match parent.get(key).and_then(Value::as_table) {
        Some(table) => std::borrow::Cow::Borrowed(table),
        None => std::borrow::Cow::Owned(Table::new()),
    }
}

/// Manifests of the members; a last component `*` is every directory with a manifest, as cargo has it.
fn members(root: &Path, workspace: &Table) -> Result<Vec<PathBuf>> {
    let patterns = workspace.get("members").and_then(Value::as_array).context("no workspace members")?;
    let mut found = Vec::new();
    for pattern in patterns.iter().filter_map(Value::as_str) {
        match pattern.strip_suffix("/*") {
            None => found.push(root.join(pattern).join("Cargo.toml")),
            Some(parent) => {
                let parent = root.join(parent);
                let entries = std::fs::read_dir(&parent)
                    .with_context(|| format!("cannot list {}", parent.display()))?;
                for entry in entries {
                    let manifest = entry?.path().join("Cargo.toml");
                    if manifest.exists() {
                        found.push(manifest);
                    }
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_inherited(value: Option<&Value>) -> bool {
    value.and_then(|v| v.get("workspace")).and_then(Value::as_bool) == Some(true)
}

fn inherits(member: &Table) -> Vec<String> {
    let package = table(member, "package");
    let mut complaints: Vec<String> = INHERITED
        .iter()
        .filter(|field| !is_inherited(package.get(**field)))
        .map(|field| format!("package.{field} must be `{field}.workspace = true`"))
        .collect();
    if !is_inherited(member.get("lints")) {
        complaints.push("must have `[lints] workspace = true`".to_owned());
    }
    complaints
}

/// Every dependency of a member, those of `[target.'…']` tables too.
fn dependencies(member: &Table) -> Vec<(&String, &Value)> {
    let targets = member.get("target").and_then(Value::as_table).into_iter().flat_map(|t| t.values());
    std::iter::once(member)
        .chain(targets.filter_map(Value::as_table))
        .flat_map(|t| DEPENDENCY_TABLES.iter().filter_map(|name| t.get(*name)?.as_table()))
        .flatten()
        .collect()
}

/// Entries of `[workspace.dependencies]` that no comment covers.
///
/// The parser drops comments, so this reads lines. A comment covers what follows it up to the next blank
/// line, which lets one sentence or one heading speak for a group; a comment behind an entry covers that entry.
fn unexplained(text: &str) -> Vec<String> {
    let section = text.lines().skip_while(|l| l.trim() != "[workspace.dependencies]").skip(1);
    let mut covered = false;
    let mut complaints = Vec::new();
    for line in section.take_while(|l| !l.starts_with('[')) {
        let line = line.trim();
        if line.is_empty() {
            covered = false;
        } else if line.starts_with('#') {
            covered = true;
        } else if let Some((name, rest)) = line.split_once('=')
            && !covered
            && !rest.contains(" # ")
        {
            complaints.push(format!("Cargo.toml: {} has no comment that says why it is there", name.trim()));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\npublish.workspace = true\n[lints]\nworkspace = true\n";

    fn workspace(dependencies: &str, member: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("crates/a")).unwrap();
        std::fs::create_dir_all(dir.path().join("crates/not-a-crate")).unwrap();
        let root = format!(
            "[workspace]\nmembers = [\"crates/*\"]\n[workspace.dependencies]\n{dependencies}\n[profile.dev]\n"
        );
        std::fs::write(dir.path().join("Cargo.toml"), root).unwrap();
        std::fs::write(dir.path().join("crates/a/Cargo.toml"), member).unwrap();
        check(dir.path()).unwrap()
    }

    #[test]
    fn a_good_workspace_has_nothing_to_complain_about() {
        let member = format!(
            "{GOOD}[dependencies]\nx.workspace = true\n[target.'cfg(unix)'.dev-dependencies]\ny = {{ workspace = true, optional = true }}\n"
        );
        let complaints =
            workspace("# why\nx = \"1\"\nours = { path = \"crates/b\" }\n\ny = \"2\" # because\n", &member);
        assert!(complaints.is_empty(), "{complaints:?}");
    }

    #[test]
    fn each_omission_is_named() {
        let complaints =
            workspace("# why\nx = \"1\"\n\ny = \"2\"\n", &GOOD.replace("[lints]\nworkspace = true\n", ""));
        let want = [
            "Cargo.toml: y has no comment that says why it is there",
            "crates/a/Cargo.toml: must have `[lints] workspace = true`",
            "Cargo.toml: no member uses x; remove it",
            "Cargo.toml: no member uses y; remove it",
        ];
        assert_eq!(complaints, want);
        let own = format!(
            "{}[dependencies]\nx = \"1\"\n",
            GOOD.replace("edition.workspace = true", "edition = \"2021\"")
        );
        let complaints = workspace("# why\nx = \"1\"\n", &own);
        assert_eq!(
            complaints,
            [
                "crates/a/Cargo.toml: package.edition must be `edition.workspace = true`",
                "crates/a/Cargo.toml: x must be `x.workspace = true`"
            ]
        );
    }
}
