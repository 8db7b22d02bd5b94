//! Fresh memory that a step is about to fill: asked for in large pages, where there is much of it.
#![expect(unsafe_code, reason = "advice about memory is a system call with addresses")]

/// Bytes from which on C libraries give memory that is fresh each time, and given back when it is freed: below, the advice
/// would stay with the host's heap.
const MUCH: usize = 32 << 20;
/// The size of a large page.
const LARGE: usize = 2 << 20;

/// Advises the system to back a buffer by large pages: with small ones most of the time that 32 rows of 262,144 logits take
/// to be written is the system's, page by page (12 ms of 35 on one machine).
///
/// Where the system does not follow nothing is lost.
pub fn advise<T>(buffer: &mut [T]) {
    if size_of_val(buffer) < MUCH {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};

        let start = buffer.as_mut_ptr().cast::<u8>();
        let end = start.wrapping_add(size_of_val(buffer));
        let first = start.wrapping_add(start.align_offset(LARGE));
        let bytes = (end.addr() - first.addr()) / LARGE * LARGE;
        // SAFETY: the pages lie in a buffer that is ours to write; the advice changes none of its bytes.
        let _advice = unsafe { madvise(first.cast(), bytes, Advice::LinuxHugepage) };
    }
}
