//! Links the unwinder into the Linux extension instead of loading `libgcc_s.so.1`, a third of its import time.
//!
//! rustc asks the linker for `-lgcc_s`. A folder with a linker script of that name, searched first, answers
//! with the static half of the same library. Where that half is missing the extension links as usual.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script in its environment, and the compiler is asked"
)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SWITCH: &str = "VPLUG_BUILD_SHARED_UNWINDER";
const SCRIPT: &str = "/* the unwinder, static */\nGROUP ( -lgcc_eh -lgcc )\n";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={SWITCH}");
    if !wanted() {
        return;
    }
    match static_unwinder() {
        Ok(folder) => println!("cargo:rustc-link-arg-cdylib=-L{}", folder.display()),
        Err(reason) => println!("cargo:warning=libgcc_s stays a shared library: {reason}"),
    }
}

/// Whether this build makes the Python extension for a target whose unwinder is `libgcc`.
fn wanted() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    env::var_os("CARGO_FEATURE_PYTHON").is_some()
        && env::var_os(SWITCH).is_none()
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
}

fn static_unwinder() -> Result<PathBuf, String> {
    let compiler = compiler()?;
    for library in ["libgcc_eh.a", "libgcc.a"] {
        find(&compiler, library)?;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo gave no OUT_DIR")?).join("unwinder");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    fs::write(folder.join("libgcc_s.so"), SCRIPT).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// The compiler driver that rustc links with: the configured linker, or `cc` when nothing is crossed.
fn compiler() -> Result<PathBuf, String> {
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        return Ok(linker.into());
    }
    if env::var_os("HOST") == env::var_os("TARGET") {
        return Ok("cc".into());
    }
    Err("a cross build names no linker".to_owned())
}

fn find(compiler: &Path, library: &str) -> Result<(), String> {
    let asked = Command::new(compiler)
        .arg(format!("-print-file-name={library}"))
        .output();
    let answer = asked.map_err(|error| format!("{} does not start: {error}", compiler.display()))?;
    // The driver repeats the bare name when it has no such file.
    let path = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
    if path.is_absolute() && path.is_file() {
        return Ok(());
    }
    Err(format!("{} has no {library}", compiler.display()))
}
