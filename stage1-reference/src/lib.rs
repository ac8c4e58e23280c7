//! stage1-reference
