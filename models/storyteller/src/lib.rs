//! storyteller
