//! Patterns: text in which `*` stands for any run, without regard to case.

pub fn fits(pattern: &str, text: &str) -> bool {
    crate::rbac::matches(pattern, text)
}
