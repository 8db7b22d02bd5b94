//! Buffers between two pages that nobody may touch: a read or write out of bounds ends the test at once.
#![expect(unsafe_code, reason = "pages are mapped and protected by hand")]

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::{ptr, slice};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Numbers that end (or begin) where a page begins (or ended) that may not be touched.
pub struct Guarded<T: Copy> {
    map: *mut u8,
    mapped: usize,
    first: *mut T,
    len: usize,
    numbers: PhantomData<T>,
}

/// At which end of the buffer the page lies that ends right beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tight {
    /// One number further is forbidden.
    End,
    /// One number before is forbidden.
    Start,
}

impl<T: Copy> Guarded<T> {
    /// A copy of `numbers`.
    pub fn of(numbers: &[T], tight: Tight) -> Self {
        let page = rustix::param::page_size();
        let bytes = size_of_val(numbers);
        let inner = bytes.div_ceil(page).max(1) * page;
        let mapped = inner + 2 * page;
        // SAFETY: a fresh anonymous mapping, of which only the inner pages are made accessible.
        let map = unsafe { mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::empty(), MapFlags::PRIVATE) }.unwrap();
        // SAFETY: these pages lie inside the mapping.
        unsafe { mprotect(map.byte_add(page), inner, MprotectFlags::READ | MprotectFlags::WRITE) }.unwrap();
        let start = match tight {
            Tight::End => page + inner - bytes,
            Tight::Start => page,
        };
        let map = map.cast::<u8>();
        // SAFETY: `start` and the bytes after it lie in the inner pages; both are aligned, since `bytes` is a multiple of T.
        let first = unsafe { map.add(start) }.cast::<T>();
        // SAFETY: fresh memory does not overlap `numbers`.
        unsafe { ptr::copy_nonoverlapping(numbers.as_ptr(), first, numbers.len()) };
        Self {
            map,
            mapped,
            first,
            len: numbers.len(),
            numbers: PhantomData,
        }
    }
}

impl<T: Copy> Deref for Guarded<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` numbers were written there, and the mapping lives as long as `self`.
        unsafe { slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T: Copy> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl<T: Copy> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows it any more.
        unsafe { munmap(self.map.cast(), self.mapped) }.unwrap();
    }
}
