//! Small synthetic sites for the benches; the shape of `benches/python/site_generator.py` without its detail.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The group that a few distributions register in.
pub const GROUP: &str = "vllm.general_plugins";

/// Longer than the time for which a memo distrusts what has just been written.
pub const SETTLE: Duration = Duration::from_millis(2500);

/// An `entry_points.txt` of `lines` entries in two groups.
pub fn entry_points(name: &str, lines: usize) -> String {
    let mut text = String::from("[console_scripts]\n");
    for line in 0..lines {
        let _ = writeln!(text, "{name}-{line} = {name}.cli:main_{line}");
    }
    let _ = writeln!(text, "\n[{GROUP}]\n{name} = {name}.plugin:register");
    text
}

/// A METADATA of `requirements` requirements and about `body` bytes of description.
pub fn metadata(name: &str, requirements: usize, body: usize) -> String {
    let mut text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.3\nSummary: Synthetic\n");
    for number in 0..requirements {
        let _ = writeln!(
            text,
            "Requires-Dist: other-{number}>=1.{number}; python_version >= \"3.9\""
        );
    }
    text.push('\n');
    text.push_str(&"A small, well tested and documented set of functions.\n".repeat(body / 54));
    text
}

/// A RECORD of `lines` lines in one package.
pub fn record(name: &str, lines: usize) -> String {
    let mut text = String::new();
    for line in 0..lines {
        let _ = writeln!(
            text,
            "{name}/part_{line}/module.py,sha256={},{}",
            "A".repeat(43),
            1000 + line
        );
    }
    text
}

/// Writes `size` distributions below `site`; three in ten have entry points.
pub fn build(site: &Path, size: usize) -> std::io::Result<()> {
    for number in 0..size {
        let name = format!("project_{number}");
        let info = site.join(format!("{name}-1.2.3.dist-info"));
        fs::create_dir_all(&info)?;
        fs::create_dir_all(site.join(&name))?;
        fs::write(info.join("METADATA"), metadata(&name, 5, 4000))?;
        fs::write(info.join("RECORD"), record(&name, 30))?;
        if number % 10 < 3 {
            fs::write(info.join("entry_points.txt"), entry_points(&name, 2))?;
        }
    }
    Ok(())
}
