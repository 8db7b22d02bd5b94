//! A path as RECORD has it in, the text of `pathlib`'s path out.

use std::borrow::Cow;

use memchr::memchr_iter;

/// The text of `PurePosixPath(path)`: no empty and no `.` component, `.` for nothing at all.
pub fn pure_path(path: &str) -> Cow<'_, str> {
    let bytes = path.as_bytes();
    let ends = memchr_iter(b'/', bytes).chain([bytes.len()]);
    let mut start = 0;
    let pure = ends.into_iter().all(|end| {
        let part = &bytes[start..end];
        start = end + 1;
        !matches!(part, b"" | b".")
    });
    if pure {
        return Cow::Borrowed(path);
    }
    let root = match path.len() - path.trim_start_matches('/').len() {
        0 => "",
        2 => "//", // POSIX lets two slashes mean something of their own, and pathlib keeps them
        _ => "/",
    };
    let mut out = String::with_capacity(path.len());
    out.push_str(root);
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if out.len() > root.len() {
            out.push('/');
        }
        out.push_str(part);
    }
    if out.is_empty() {
        out.push('.');
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_take_the_form_that_pathlib_gives_them() {
        for (path, pure) in [
            ("", "."),
            (".", "."),
            ("./", "."),
            ("a/", "a"),
            ("a/.", "a"),
            ("./a//b/./c", "a/b/c"),
            ("../a", "../a"),
            (".a/.b", ".a/.b"),
            ("/a", "/a"),
            ("//a", "//a"),
            ("///a", "/a"),
            ("/", "/"),
        ] {
            assert_eq!(pure_path(path), pure, "{path:?}");
        }
    }
}
