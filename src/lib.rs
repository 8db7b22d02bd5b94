//! Plugin discovery at the speed of the file system: the core, which knows nothing of Python.
//!
//! ```
//! use vplug_rs::memo::Scanner;
//!
//! let site = std::env::temp_dir();
//! let inventory = Scanner::default().scan(&[site.into_os_string()]);
//! inventory.entry_points(Some("console_scripts"), None, false, |_row, point| {
//!     println!("{} = {}", point.name, point.value);
//! });
//! ```
//!
//! The data goes one way: `path_entry` -> `dist_info` -> `entry_points` -> `scan`; `memo` repeats it cheaply.

pub mod allowlist;
pub mod diagnostic;
pub mod dist_info;
pub mod distribution;
pub mod entry_point_files;
pub mod entry_points;
pub mod files;
pub mod findings;
pub mod heads;
pub mod import_names;
pub mod memo;
pub mod metadata;
pub mod name;
pub mod nvml;
pub mod once;
pub mod packages;
pub mod path_entry;
pub mod probe;
pub mod pure_path;
pub mod python_text;
pub mod record;
pub mod reference;
pub mod scan;
pub mod standard;
pub mod version_order;

#[cfg(feature = "python")]
mod python;
