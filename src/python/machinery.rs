//! Whether the interpreter's own machinery is what it was: then the core can answer in its place.

use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// What the interpreter had when the extension was loaded. Who replaces a function of these (pyfakefs, mocks) wants
/// to be asked: then the core must not look at the disk.
struct Originals {
    path_finder: Option<Py<PyAny>>,
    find_distributions: Option<Py<PyAny>>,
    functions: [Py<PyAny>; 3],
    /// Each interpreter of a process has its own.
    sys: Py<PyModule>,
}

static ORIGINALS: PyOnceLock<Originals> = PyOnceLock::new();

fn functions(py: Python<'_>) -> PyResult<[Bound<'_, PyAny>; 3]> {
    let os = py.import(intern!(py, "os"))?;
    let builtins = py.import(intern!(py, "builtins"))?;
    Ok([
        os.getattr(intern!(py, "listdir"))?,
        os.getattr(intern!(py, "stat"))?,
        builtins.getattr(intern!(py, "open"))?,
    ])
}

fn originals(py: Python<'_>) -> PyResult<&Originals> {
    ORIGINALS.get_or_try_init(py, || {
        let sys = py.import(intern!(py, "sys"))?;
        let meta_path = sys.getattr(intern!(py, "meta_path"))?;
        let mut path_finder = None;
        for finder in meta_path.try_iter()? {
            let finder = finder?;
            let name = finder.getattr_opt(intern!(py, "__name__"))?;
            if name.is_some_and(|name| is_text(&name, "PathFinder")) {
                path_finder = Some(finder);
                break;
            }
        }
        let find_distributions = match &path_finder {
            Some(finder) => finder.getattr_opt(intern!(py, "find_distributions"))?,
            None => None,
        };
        Ok(Originals {
            path_finder: path_finder.map(Bound::unbind),
            find_distributions: find_distributions.map(Bound::unbind),
            functions: functions(py)?.map(Bound::unbind),
            sys: sys.unbind(),
        })
    })
}

fn is_text(object: &Bound<'_, PyAny>, text: &str) -> bool {
    object.cast::<PyString>().is_ok_and(|object| *object == text)
}

/// Takes note of what the interpreter has now.
///
/// Raises ImportError in a subinterpreter: from 3.12 on the interpreter refuses by itself.
pub fn remember(py: Python<'_>) -> PyResult<()> {
    if originals(py)?.sys.bind(py).is(&py.import(intern!(py, "sys"))?) {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "vplug_rs._core does not support loading in subinterpreters: import vplug_rs in the main interpreter",
    ))
}

/// Whether the file system is the one that the core sees.
#[pyfunction]
pub fn is_real(py: Python<'_>) -> PyResult<bool> {
    let then = &originals(py)?.functions;
    Ok(functions(py)?.iter().zip(then).all(|(now, then)| now.is(then)))
}

/// Whether a finder looks at the path as the standard does, so that the core can stand in for it.
#[pyfunction]
pub fn is_path_finder(finder: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = finder.py();
    let originals = originals(py)?;
    if originals.path_finder.as_ref().is_some_and(|known| finder.is(known)) {
        let name = intern!(py, "find_distributions");
        let own = finder.getattr(intern!(py, "__dict__"))?.get_item(name);
        if own.is_ok_and(|own| !own.is_none())
            && let (Some(now), Some(then)) = (finder.getattr_opt(name)?, &originals.find_distributions)
        {
            return now.eq(then);
        }
        return Ok(false);
    }
    // the back-port's
    let kind = finder.get_type();
    Ok(kind.name()? == "MetadataPathFinder" && kind.module()? == "importlib_metadata")
}

/// Whether the path is all there is to ask: one finder for it in `sys.meta_path`, no other, and the real file system.
#[pyfunction]
pub fn is_plain(meta_path: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = meta_path.py();
    let mut found = false;
    for finder in meta_path.try_iter()? {
        let finder = finder?;
        let find = finder.getattr_opt(intern!(py, "find_distributions"))?;
        if find.is_some_and(|find| !find.is_none()) {
            if found || !is_path_finder(&finder)? {
                return Ok(false);
            }
            found = true;
        }
    }
    Ok(found && is_real(py)?)
}
