//! Links the unwinder into the Linux extension (loading `libgcc_s.so.1` is a third of its import time).
fn main() {}
