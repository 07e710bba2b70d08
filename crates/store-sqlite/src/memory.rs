//! SQLite's memory: from the allocator of the program, like everybody else's.
//!
//! Of itself SQLite takes it from the C library. musl's asks the kernel for pages, and gives them back, at nearly
//! every statement; in a program that opens a store, commits once and leaves, that was a tenth of its time.

#![allow(unsafe_code, reason = "SQLite asks for memory through pointers")]

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use rusqlite::ffi::{SQLITE_CONFIG_MALLOC, SQLITE_OK, sqlite3_config, sqlite3_mem_methods};

/// Before each piece stands its size, and what SQLite gets is aligned as C's own would be.
const HEADER: usize = 16;

/// Lets SQLite take its memory from the allocator of this program. Where SQLite has been used already, it keeps
/// what it has.
///
/// # Safety
/// Nobody else uses SQLite in this process meanwhile: call it first of all, before there is a second thread.
pub unsafe fn share_allocator() {
    let methods = sqlite3_mem_methods {
        xMalloc: Some(take),
        xFree: Some(give_back),
        xRealloc: Some(resize),
        xSize: Some(size_of_piece),
        xRoundup: Some(round_up),
        xInit: Some(begin),
        xShutdown: Some(end),
        pAppData: null_mut(),
    };
    // SAFETY: nobody else is there, and SQLite copies what it is given.
    let _ = unsafe { sqlite3_config(SQLITE_CONFIG_MALLOC, &raw const methods) };
}

/// The layout of a piece of `bytes`; `None` where that is none.
fn layout_of(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(HEADER)?, HEADER).ok()
}

/// Writes the size before a piece that was just allocated at `start`, and gives the piece.
///
/// # Safety
/// `start` is null, or what was allocated with the layout of `bytes`.
unsafe fn finish(start: *mut u8, bytes: usize) -> *mut c_void {
    if start.is_null() {
        return null_mut();
    }
    // SAFETY: there is room for the header, and it is aligned for it.
    unsafe {
        start.cast::<usize>().write(bytes);
        start.add(HEADER).cast()
    }
}

/// Where a piece begins, and its size.
///
/// # Safety
/// `piece` was given by `finish` and not given back since.
unsafe fn find(piece: *mut c_void) -> (*mut u8, usize) {
    // SAFETY: the header stands before it.
    unsafe {
        let start = piece.cast::<u8>().sub(HEADER);
        (start, start.cast::<usize>().read())
    }
}

unsafe extern "C" fn take(bytes: c_int) -> *mut c_void {
    let Some((bytes, layout)) =
        usize::try_from(bytes).ok().and_then(|bytes| Some((bytes, layout_of(bytes)?)))
    else {
        return null_mut();
    };
    // SAFETY: the layout is not empty, for the header is in it.
    unsafe { finish(alloc(layout), bytes) }
}

unsafe extern "C" fn give_back(piece: *mut c_void) {
    if piece.is_null() {
        return;
    }
    // SAFETY: SQLite gives back what it took, once.
    unsafe {
        let (start, bytes) = find(piece);
        if let Some(layout) = layout_of(bytes) {
            dealloc(start, layout);
        }
    }
}

unsafe extern "C" fn resize(piece: *mut c_void, bytes: c_int) -> *mut c_void {
    let Ok(bytes) = usize::try_from(bytes) else { return null_mut() };
    // SAFETY: SQLite resizes what it took and has not given back.
    unsafe {
        let (start, before) = find(piece);
        match (layout_of(before), layout_of(bytes)) {
            (Some(layout), Some(wanted)) => finish(realloc(start, layout, wanted.size()), bytes),
            _ => null_mut(),
        }
    }
}

unsafe extern "C" fn size_of_piece(piece: *mut c_void) -> c_int {
    if piece.is_null() {
        return 0;
    }
    // SAFETY: SQLite asks about what it took and has not given back.
    c_int::try_from(unsafe { find(piece).1 }).unwrap_or(c_int::MAX)
}

unsafe extern "C" fn round_up(bytes: c_int) -> c_int {
    bytes.saturating_add(7) & !7
}

unsafe extern "C" fn begin(_: *mut c_void) -> c_int {
    SQLITE_OK
}

unsafe extern "C" fn end(_: *mut c_void) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_keeps_its_content_and_its_size_when_it_grows_and_shrinks() {
        // SAFETY: as SQLite does it: what is taken is resized, asked about and given back, once.
        unsafe {
            let piece = take(100);
            assert_eq!((size_of_piece(piece), piece.addr() % HEADER), (100, 0));
            piece.cast::<u8>().write_bytes(7, 100);
            let piece = resize(piece, 100_000);
            assert_eq!(size_of_piece(piece), 100_000);
            let piece = resize(piece, 50);
            let content = std::slice::from_raw_parts(piece.cast::<u8>(), 50);
            assert!(content.iter().all(|byte| *byte == 7));
            give_back(piece);
        }
    }

    #[test]
    fn nonsense_gets_no_memory() {
        // SAFETY: nothing is given, so nothing has to be given back.
        unsafe {
            assert!(take(-1).is_null());
            assert_eq!(size_of_piece(null_mut()), 0);
            give_back(null_mut());
        }
    }
}
