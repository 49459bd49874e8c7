//! Matching of paths with patterns.

/// Whether a pattern, as of [`freeze_matching`](crate::Module::freeze_matching), matches a path or
/// a prefix of it.
///
/// ```
/// use dl_core::module::matches;
/// assert!(matches("encoder.*.bias", "encoder.0.bias") && matches("encoder", "encoder.0.bias"));
/// assert!(!matches("encoder", "encoder2.bias"));
/// ```
pub fn matches(pattern: &str, path: &str) -> bool {
    let [pattern, path] = [pattern, path].map(|text| text.split('.').collect::<Vec<_>>());
    matches_prefix(&pattern, &path)
}

/// Whether the pattern matches the path or a prefix of it.
fn matches_prefix(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], _) => true,
        (["**", rest @ ..], _) if matches_prefix(rest, path) => true,
        (["**", ..], [_, below @ ..]) => matches_prefix(pattern, below),
        ([first, rest @ ..], [name, below @ ..]) => matches_name(first, name) && matches_prefix(rest, below),
        (_, []) => false,
    }
}

/// Whether a name matches a pattern in which `*` matches any text.
fn matches_name(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let Some((middle, end)) = rest.rsplit_once('*') else { return name.ends_with(rest) };
    // greedy: taking the first occurrence of each part leaves the longest rest for the other parts
    for part in middle.split('*') {
        match name.find(part) {
            Some(place) => name = &name[place + part.len()..],
            None => return false,
        }
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn pattern_matches_path_and_paths_below() {
        for (pattern, path, expected) in [
            ("encoder", "encoder.0.bias", true),
            ("encoder", "encoder", true),
            ("encoder", "encoder2.bias", false),
            ("encoder.0.bias.more", "encoder.0.bias", false),
            ("encoder.*.bias", "encoder.0.bias", true),
            ("encoder.*.bias", "encoder.bias", false),
            ("*", "anything.at.all", true),
            ("**.bias", "bias", true),
            ("**.bias", "a.b.bias", true),
            ("**.bias", "a.b.weight", false),
            ("a.**.c", "a.c", true),
            ("a.**.c", "a.b.b.c.d", true),
            ("a.**", "a", true),
            ("lay*", "layer.0", true),
            ("l*r", "layer", true),
            ("l*r", "lay", false),
            ("*y*", "layer", true),
            ("l**r", "lr", true),
            ("a*b*c", "axxbyc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
