//! NVML, NVIDIA's management library: opened by its name, asked by its C functions.
//!
//! In: a library's name. Out: what it answers, or its error code. Loading somebody else's driver can hang or crash the
//! process, so this is for a process that was started for it. It knows no error texts: the library is not asked for them.

#![expect(
    unsafe_code,
    reason = "a C library that is there or not when the program runs can be called no other way"
)]

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

use libloading::Library;

/// An error code of NVML, never 0.
pub type Code = c_int;

/// Nothing has been begun.
pub const UNINITIALIZED: Code = 1;
/// The argument is none that this function can have: here, a device whose handle was not asked for.
pub const INVALID_ARGUMENT: Code = 2;
/// The library is not there, or the system's loader refuses it.
pub const LIBRARY_NOT_FOUND: Code = 12;
/// The library has no function of that name.
pub const FUNCTION_NOT_FOUND: Code = 13;

/// What NVML can be begun with, the newest first.
pub const INITS: [&str; 3] = ["nvmlInitWithFlags", "nvmlInit_v2", "nvmlInit"];

/// More than NVML writes at most (96).
const TOLD: c_uint = 127;
/// One longer than what the library is told, so that the last byte stays 0.
const TEXT: usize = 128;

type Plain = unsafe extern "C" fn() -> c_int;
type WithFlags = unsafe extern "C" fn(c_uint) -> c_int;
type SystemText = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
type DeviceText = unsafe extern "C" fn(*mut c_void, *mut c_char, c_uint) -> c_int;

/// A device, as the library names it.
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

// SAFETY: a handle is a name that only the library follows, and NVML's functions may be called from any thread.
unsafe impl Send for Handle {}

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Default)]
struct PciInfo {
    legacy_address: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    id: c_uint,
    subsystem: c_uint,
    address: [u8; 32],
}

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Default)]
struct MemoryInfo {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// The opened library. It is never closed: drivers' libraries do not all survive that.
pub struct Nvml {
    library: ManuallyDrop<Library>,
    handles: Mutex<BTreeMap<u32, Handle>>,
}

impl Nvml {
    /// Opens the library of this name as the system's loader finds it; its constructors run.
    ///
    /// The error is the loader's own sentence.
    pub fn open(name: &OsStr) -> Result<Self, String> {
        let library = load(name).map_err(|error| with_sources(&error))?;
        Ok(Self {
            library: ManuallyDrop::new(library),
            handles: Mutex::default(),
        })
    }

    /// Begins, by one of `INITS`.
    pub fn init(&self, name: &str) -> Result<(), Code> {
        if name == INITS[0] {
            // SAFETY: its C declaration is `nvmlReturn_t (unsigned)`.
            let call = unsafe { self.function::<WithFlags>(name) }?;
            // SAFETY: 0 asks for nothing special.
            return done(unsafe { call(0) });
        }
        if INITS.contains(&name) {
            return self.plain(name);
        }
        Err(INVALID_ARGUMENT)
    }

    /// Ends what `init` has begun.
    pub fn shutdown(&self) -> Result<(), Code> {
        self.plain("nvmlShutdown")
    }

    /// How many devices there are, those that are lost included.
    pub fn count(&self) -> Result<u32, Code> {
        let mut count = 0;
        // SAFETY: its C declaration is `nvmlReturn_t (unsigned *)`.
        let call = unsafe { self.function::<unsafe extern "C" fn(*mut c_uint) -> c_int>("nvmlDeviceGetCount_v2") }?;
        // SAFETY: the pointer is to a number that outlives the call.
        done(unsafe { call(&raw mut count) })?;
        Ok(count)
    }

    /// Asks for a device's handle. The questions below are answered only for devices that have one.
    pub fn handle(&self, index: u32) -> Result<(), Code> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: its C declaration is `nvmlReturn_t (unsigned, nvmlDevice_t *)`, and a device is a pointer.
        let call = unsafe {
            self.function::<unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_int>("nvmlDeviceGetHandleByIndex_v2")
        }?;
        // SAFETY: the pointer is to a handle that outlives the call.
        done(unsafe { call(index, &raw mut handle) })?;
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.insert(index, Handle(handle));
        Ok(())
    }

    /// A device's name.
    pub fn device_name(&self, index: u32) -> Result<String, Code> {
        self.device_text(index, "nvmlDeviceGetName")
    }

    /// A device's identifier, `GPU-...`.
    pub fn uuid(&self, index: u32) -> Result<String, Code> {
        self.device_text(index, "nvmlDeviceGetUUID")
    }

    /// A device's PCI address, its domain in eight digits.
    pub fn pci(&self, index: u32) -> Result<String, Code> {
        let Handle(handle) = self.known(index)?;
        let mut info = PciInfo::default();
        // SAFETY: its C declaration is `nvmlReturn_t (nvmlDevice_t, nvmlPciInfo_t *)`.
        let call = unsafe {
            self.function::<unsafe extern "C" fn(*mut c_void, *mut PciInfo) -> c_int>("nvmlDeviceGetPciInfo_v3")
        }?;
        // SAFETY: the handle is the library's own; the record has the declared layout and outlives the call.
        done(unsafe { call(handle, &raw mut info) })?;
        Ok(text(&info.address))
    }

    /// A device's memory in bytes.
    pub fn memory(&self, index: u32) -> Result<u64, Code> {
        let Handle(handle) = self.known(index)?;
        let mut info = MemoryInfo::default();
        // SAFETY: its C declaration is `nvmlReturn_t (nvmlDevice_t, nvmlMemory_t *)`.
        let call = unsafe {
            self.function::<unsafe extern "C" fn(*mut c_void, *mut MemoryInfo) -> c_int>("nvmlDeviceGetMemoryInfo")
        }?;
        // SAFETY: the handle is the library's own; the record has the declared layout and outlives the call.
        done(unsafe { call(handle, &raw mut info) })?;
        Ok(info.total)
    }

    /// A device's CUDA compute capability, major and minor.
    pub fn capability(&self, index: u32) -> Result<(i32, i32), Code> {
        let Handle(handle) = self.known(index)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: its C declaration is `nvmlReturn_t (nvmlDevice_t, int *, int *)`.
        let call = unsafe {
            self.function::<unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int) -> c_int>(
                "nvmlDeviceGetCudaComputeCapability",
            )
        }?;
        // SAFETY: the handle is the library's own; the pointers are to numbers that outlive the call.
        done(unsafe { call(handle, &raw mut major, &raw mut minor) })?;
        Ok((major, minor))
    }

    /// The driver's version.
    pub fn driver(&self) -> Result<String, Code> {
        let mut buffer = [0_u8; TEXT];
        // SAFETY: its C declaration is `nvmlReturn_t (char *, unsigned)`.
        let call = unsafe { self.function::<SystemText>("nvmlSystemGetDriverVersion") }?;
        // SAFETY: the buffer is longer than the length that is told.
        done(unsafe { call(buffer.as_mut_ptr().cast(), TOLD) })?;
        Ok(text(&buffer))
    }

    /// The CUDA version that the driver can do, 12080 for 12.8.
    pub fn cuda(&self) -> Result<i32, Code> {
        let mut version = 0;
        // SAFETY: its C declaration is `nvmlReturn_t (int *)`.
        let call =
            unsafe { self.function::<unsafe extern "C" fn(*mut c_int) -> c_int>("nvmlSystemGetCudaDriverVersion") }?;
        // SAFETY: the pointer is to a number that outlives the call.
        done(unsafe { call(&raw mut version) })?;
        Ok(version)
    }

    fn plain(&self, name: &str) -> Result<(), Code> {
        // SAFETY: the C declaration of those that come here is `nvmlReturn_t (void)`.
        let call = unsafe { self.function::<Plain>(name) }?;
        // SAFETY: it takes nothing.
        done(unsafe { call() })
    }

    fn device_text(&self, index: u32, name: &str) -> Result<String, Code> {
        let Handle(handle) = self.known(index)?;
        let mut buffer = [0_u8; TEXT];
        // SAFETY: the C declaration of those that come here is `nvmlReturn_t (nvmlDevice_t, char *, unsigned)`.
        let call = unsafe { self.function::<DeviceText>(name) }?;
        // SAFETY: the handle is the library's own; the buffer is longer than the length that is told.
        done(unsafe { call(handle, buffer.as_mut_ptr().cast(), TOLD) })?;
        Ok(text(&buffer))
    }

    fn known(&self, index: u32) -> Result<Handle, Code> {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.get(&index).copied().ok_or(INVALID_ARGUMENT)
    }

    /// A function of the library.
    ///
    /// # Safety
    ///
    /// `Call` must be the type of the function that has this name in C.
    unsafe fn function<Call: Copy>(&self, name: &str) -> Result<Call, Code> {
        // SAFETY: the caller's.
        let found = unsafe { self.library.get::<Call>(name) };
        found.map(|function| *function).map_err(|_| FUNCTION_NOT_FOUND)
    }
}

/// With all functions that it needs itself, as `ctypes` opens libraries, so that both backends refuse the same ones.
#[cfg(unix)]
fn load(name: &OsStr) -> Result<Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: foreign constructors run, which nobody can vouch for; that is what the module's first lines are about.
    unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

#[cfg(not(unix))]
fn load(name: &OsStr) -> Result<Library, libloading::Error> {
    // SAFETY: foreign constructors run, which nobody can vouch for; that is what the module's first lines are about.
    unsafe { Library::new(name) }
}

fn done(code: c_int) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

fn text(buffer: &[u8]) -> String {
    let until_nul = CStr::from_bytes_until_nul(buffer).map_or(buffer, CStr::to_bytes);
    String::from_utf8_lossy(until_nul).into_owned()
}

fn with_sources(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), with_sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_by_the_loader() {
        let refusal = Nvml::open(OsStr::new("libno-such-library.so.7")).err().unwrap();
        assert!(refusal.contains("libno-such-library.so.7"), "{refusal}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_our_functions_gives_their_code() {
        // the C library is no NVML, and always there
        let other = Nvml::open(OsStr::new("libc.so.6")).unwrap();
        for name in INITS {
            assert_eq!(other.init(name), Err(FUNCTION_NOT_FOUND));
        }
        assert_eq!(other.init("exit"), Err(INVALID_ARGUMENT), "only what begins NVML");
        assert_eq!(other.count(), Err(FUNCTION_NOT_FOUND));
        assert_eq!(other.handle(0), Err(FUNCTION_NOT_FOUND));
        assert_eq!(other.memory(0), Err(INVALID_ARGUMENT), "it has no handle");
        assert_eq!(other.driver(), Err(FUNCTION_NOT_FOUND));
        assert_eq!(other.shutdown(), Err(FUNCTION_NOT_FOUND));
    }

    #[test]
    fn texts_end_at_the_first_nul_or_with_the_buffer() {
        assert_eq!(text(b"GB10\0\0rest"), "GB10");
        assert_eq!(text(b"full"), "full");
        assert_eq!(text(b"caf\xe9\0"), "caf\u{fffd}");
    }
}
