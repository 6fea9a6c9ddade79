//! Clients of stores, configured by the environment variables that each kind of store has.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, Result, RetryConfig};

use super::REQUEST_TIME;
use crate::cli::io::address::{Service, StoreAddress};

/// Longer than any object takes to read; what stalls is noticed where it is read.
const STREAM_TIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A run ends soon when its store is not there, and survives a hiccup.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: 4,
        retry_timeout: Duration::from_secs(60),
    }
}

/// A client for requests that are answered soon.
pub(super) fn objects(address: &StoreAddress) -> Result<Arc<dyn ObjectStore>> {
    client(address, REQUEST_TIME, false)
}

/// A client for answers that may take any time.
pub(super) fn streams(address: &StoreAddress) -> Result<Arc<dyn ObjectStore>> {
    client(address, STREAM_TIME, true)
}

/// A time from the environment is taken unless it is `forced` otherwise.
fn client(address: &StoreAddress, time: Duration, forced: bool) -> Result<Arc<dyn ObjectStore>> {
    let key = ClientConfigKey::Timeout;
    let time = format!("{}s", time.as_secs());
    let root = format!("{}/", address.root);
    let set = |name: &str| !forced && std::env::var_os(name).is_some();
    Ok(match address.service {
        Service::S3 => {
            let mut builder = AmazonS3Builder::from_env().with_retry(retries());
            if !set("AWS_TIMEOUT") {
                builder = builder.with_config(AmazonS3ConfigKey::Client(key), time);
            }
            let bucket = address.root.trim_start_matches("s3://");
            Arc::new(builder.with_bucket_name(bucket).build()?)
        }
        Service::Google => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_retry(retries());
            if !set("GOOGLE_TIMEOUT") {
                builder = builder.with_config(GoogleConfigKey::Client(key), time);
            }
            let bucket = address.root.trim_start_matches("gs://");
            Arc::new(builder.with_bucket_name(bucket).build()?)
        }
        Service::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_retry(retries());
            if !set("AZURE_TIMEOUT") {
                builder = builder.with_config(AzureConfigKey::Client(key), time);
            }
            Arc::new(builder.with_url(root).build()?)
        }
        Service::Http => {
            // Whoever writes http:// means it; a redirect from https:// to it is not followed.
            let plain = address.root.starts_with("http://");
            let url = match &address.query {
                Some(query) => format!("{root}?{query}"),
                None => root,
            };
            let builder = HttpBuilder::new()
                .with_url(url)
                .with_retry(retries())
                .with_config(key, time)
                .with_config(ClientConfigKey::AllowHttp, plain.to_string());
            Arc::new(builder.build()?)
        }
    })
}
