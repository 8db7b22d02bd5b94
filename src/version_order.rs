//! Which of two versions is the newer one: two version texts in, an ordering out.
//!
//! The order is that of PEP 440. Knows nothing of where the texts come from.

use std::cmp::Ordering;
use std::str::FromStr;

use pep440_rs::Version;

/// Compares two versions: `Greater` means that `a` is the newer one.
///
/// A valid version beats an invalid one. Two invalid ones are compared letter by letter, which is
/// arbitrary but the same everywhere. Different spellings of one version (`1.0`, `1`) are `Equal`.
pub fn higher(a: &str, b: &str) -> Ordering {
    match (Version::from_str(a), Version::from_str(b)) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Greater,
        (Err(_), Ok(_)) => Ordering::Less,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// Whether a version meets a list of specifiers such as `>=1,<2`; `None` where either cannot be read (PEP 440).
pub fn meets(version: &str, specifiers: &str) -> Option<bool> {
    let version: Version = version.parse().ok()?;
    let specifiers: pep440_rs::VersionSpecifiers = specifiers.parse().ok()?;
    Some(specifiers.contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert_eq!(higher("1.10", "1.9"), Ordering::Greater);
        assert_eq!(higher("1.0", "1"), Ordering::Equal);
        assert_eq!(higher("v1.0", "1.0"), Ordering::Equal);
    }

    #[test]
    fn releases_stand_between_candidates_and_posts() {
        let order = ["1.dev1", "1a1", "1rc1", "1", "1+local", "1.post1", "1!0"];
        for pair in order.windows(2) {
            assert_eq!(higher(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn a_valid_version_beats_an_invalid_one() {
        assert_eq!(higher("0", "zzz"), Ordering::Greater);
        assert_eq!(higher("", "0"), Ordering::Less);
    }

    #[test]
    fn invalid_versions_have_an_order_too() {
        assert_eq!(higher("b-x", "a-x"), Ordering::Greater);
        assert_eq!(higher("", ""), Ordering::Equal);
        assert_eq!(higher("1.99999999999999999999999", "x"), Ordering::Less);
    }

    #[test]
    fn a_version_meets_its_specifiers_or_cannot_be_judged() {
        assert_eq!(meets("0.33.0", ">=0.30,<0.34"), Some(true));
        assert_eq!(meets("0.34", ">=0.30,<0.34"), Some(false));
        assert_eq!(meets("0.33.0+cpu", "==0.33.0"), Some(true));
        assert_eq!(meets("nightly", ">=1"), None);
        assert_eq!(meets("1", "about one"), None);
    }
}
