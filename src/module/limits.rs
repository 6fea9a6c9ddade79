//! What a module may be, before any of it is compiled.

use std::time::Duration;

/// Limits on loading a module. They bound the time and memory that parsing, checking and compiling
/// can take, whatever the file holds.
#[derive(Debug, Clone)]
pub struct ModuleLimits {
    /// Bytes of the file. Default 64 MiB.
    pub module_bytes: u64,
    /// Function types. Default 10,000.
    pub types: u64,
    /// Parameters and results of one function type together. Default 128.
    pub type_values: u64,
    /// Loops inside each other in one function. Default 100.
    pub loop_depth: u64,
    /// Functions, imported ones included. Default 100,000.
    pub functions: u64,
    /// Bytes of one function's body. Default 1 MiB.
    pub function_bytes: u64,
    /// Globals. Default 10,000.
    pub globals: u64,
    /// Tables. Default 16.
    pub tables: u64,
    /// Imports. Default 1,000.
    pub imports: u64,
    /// Exports. Default 10,000.
    pub exports: u64,
    /// Element and data segments together. Default 100,000.
    pub segments: u64,
    /// Bytes of custom sections other than DWARF debug information. Default 16 MiB.
    pub custom_bytes: u64,
    /// Bytes of the manifest. Default 4 MiB.
    pub manifest_bytes: u64,
    /// Records of the manifest. Default 4,096.
    pub manifest_records: u64,
    /// Wall time of compiling. Default 30 s.
    pub compile_time: Duration,
}

impl Default for ModuleLimits {
    fn default() -> Self {
        ModuleLimits {
            module_bytes: 64 << 20,
            types: 10_000,
            type_values: 128,
            loop_depth: 100,
            functions: 100_000,
            function_bytes: 1 << 20,
            globals: 10_000,
            tables: 16,
            imports: 1_000,
            exports: 10_000,
            segments: 100_000,
            custom_bytes: 16 << 20,
            manifest_bytes: 4 << 20,
            manifest_records: 4_096,
            compile_time: Duration::from_secs(30),
        }
    }
}
