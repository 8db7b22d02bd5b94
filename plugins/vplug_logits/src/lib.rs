//! Kernels of a two-stage LM head on CPUs: they know nothing of Python, of torch, or of files.
//!
//! The data goes one way. `transform` takes hidden states into the coordinates of the codes, `query` makes int8 of them,
//! `scan` multiplies them with the codes of all rows, `select` finds the rows that matter, `rescore` multiplies those of
//! the live weight, and `step` leads a batch through all of it, on the threads of `pool`. `encode` makes the codes.
//!
//! Each kernel is written for AVX-512 with VNNI, for AVX2, and portably; `isa` says which runs. The integers of a scan and
//! the sums of `transform` and `rescore` are the same on each, to the last bit, and at each batch size.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "sizes are checked once, where a shape is made; between float and integer is what a kernel goes all day"
)]

pub mod after;
pub mod encode;
pub mod isa;
pub mod layout;
pub mod pages;
pub mod pool;
pub mod query;
pub mod read;
pub mod rescore;
pub mod scan;
pub mod select;
pub mod step;
pub mod transform;
pub mod weight;

#[cfg(feature = "python")]
mod python;
