//! All tests except those that need a process of their own (`buffers`), as one program.

mod fork_join;
mod observer;
