//! Tests of the volume alone.
