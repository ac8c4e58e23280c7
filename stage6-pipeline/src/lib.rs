//! stage6-pipeline
