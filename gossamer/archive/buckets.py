"""This module connects to object stores through obstore: only it knows their credentials, and what their errors mean.

Credentials come from where each store's other programs find them, and never get into our files or messages.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gossamer.config.folders import Address
from gossamer.errors import ArchiveError, StoreError

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    Bucket = S3Store | AzureStore | GCSStore

T = TypeVar("T")

_EXTRA = "archives in buckets need obstore: pip install 'gossamer-crawler[cloud]'"
# The variables that name another endpoint, of which the first that is set counts.
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
}
_PROFILES = "profiles in ~/.aws need boto3: pip install 'gossamer-crawler[cloud]', or set AWS_ACCESS_KEY_ID"
_CLIENT: dict[str, Any] = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(seconds=120)}
# Throttling (503 SlowDown, 429) and short failures are waited out, longer and longer, for three minutes at most.
_RETRY: dict[str, Any] = {
    "max_retries": 12,
    "retry_timeout": timedelta(seconds=180),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=20), "base": 2},
}
_HOW = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or the role of this machine, and AWS_REGION",
    "az": "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, or the identity of this machine",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or the role of this machine",
}
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|InvalidBucketName|The specified bucket|bucket does not exist")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_SKEW = ("RequestTimeTooSkewed", "RequestExpired")
_URL = re.compile(r"https?://(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::(?:[1-5]?\d{1,4}|6[0-5]\d{3}))?(?:/[!-~]*)?")
_NOT_FOUND = re.compile(r"credential|metadata|Account must be specified|Invalid Access Key", re.IGNORECASE)
_BUSY = ("SlowDown", "503 ", "429 ", "ServerBusy", "TooManyRequests")


def connect(address: Address, retry: dict[str, Any] | None = None) -> "Bucket":
    """Returns the store of an address; nothing is asked yet."""
    try:
        from obstore import store as stores
    except ImportError:
        raise StoreError(f"{address}: {_EXTRA}") from None
    kinds: dict[str, Any] = {"s3": stores.S3Store, "az": stores.AzureStore, "gs": stores.GCSStore}
    with _explained(address):
        endpoint, client = _endpoint(_ENDPOINTS[address.scheme]), {**_CLIENT}
        if endpoint.startswith("http://") or (address.scheme == "az" and _is_emulated()):
            client["allow_http"] = True
        found: Bucket = kinds[address.scheme](
            address.bucket,
            prefix=address.prefix or None,
            client_options=client,
            retry_config={**_RETRY, **(retry or {})},
            **(_s3(endpoint) if address.scheme == "s3" else {}),
        )
    return found


def _s3(endpoint: str) -> dict[str, Any]:
    """Returns what obstore does not find by itself: endpoint, region and profiles."""
    settings = os.environ
    found: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
    if not (settings.get("AWS_REGION") or settings.get("AWS_DEFAULT_REGION")):
        found["region"] = "us-east-1"
    file = Path(settings.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials")
    if settings.get("AWS_PROFILE") or (not settings.get("AWS_ACCESS_KEY_ID") and file.exists()):
        found |= _profile()
    return found


def _profile() -> dict[str, Any]:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise StoreError(_PROFILES) from None
    try:
        session = boto3.Session()
        region = {"region": session.region_name} if session.region_name else {}
        return {"credential_provider": Boto3CredentialProvider(session), **region}
    except Exception as error:  # of botocore: a profile that is not there, a file that cannot be read
        raise StoreError(f"the profile in AWS_PROFILE cannot be used: {error}") from None


def _is_emulated() -> bool:
    return os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true")


def _endpoint(names: Sequence[str]) -> str:
    """Returns the first of these variables that is set. The library panics over one that is no URL."""
    name = next(filter(os.environ.get, names), "")
    if name and not _URL.fullmatch(os.environ[name]):
        raise StoreError(f"{name} is no URL of a store: write http://HOST:PORT or https://HOST")
    return os.environ.get(name, "")


def asked(address: Address, work: Callable[[], T]) -> T:
    """Returns the result of a request. What is missing is a FileNotFoundError, a bucket that is missing is not."""
    with _explained(address):
        return work()


@contextlib.contextmanager
def _explained(address: Address) -> Iterator[None]:
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        yield
    except FileNotFoundError as error:
        if _NO_BUCKET.search(str(error)):
            raise _missing(address) from None
        raise FileNotFoundError(2, "not in the archive", str(address)) from None
    except AlreadyExistsError:
        raise
    except (BaseError, ValueError) as error:
        raise explained(address, error) from None


def explained(address: Address, error: Exception) -> ArchiveError:
    """Returns the error in words that say what to do. What the store itself said may have a signature in it."""
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    text = str(error)
    code = " ".join(found[1].strip() for form in (_STATUS, _CODE) if (found := form.search(text)))
    reason = f" ({code})" if code else ""
    if _NO_BUCKET.search(text):
        return _missing(address)
    if any(word in code for word in _SKEW):
        return StoreError(f"{address}: this machine's clock is wrong, the store says{reason}: set it, and start again")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or code[:3] in ("401", "403"):
        return StoreError(
            f"{address}: the store refuses what we ask{reason}: the credentials are wrong, or may not read, write, "
            f"list and delete there. They are taken from {_HOW[address.scheme]} (docs/cloud.md). Nothing is lost"
        )
    if any(word in code for word in _BUSY):
        return StoreError(
            f"{address}: the store is overloaded{reason}, and was for minutes: run the same command again later, or "
            "ask for a higher limit; everything committed so far is safe"
        )
    if _NOT_FOUND.search(text):
        return StoreError(
            f"{address}: no credentials were found that can be used: set {_HOW[address.scheme]} (docs/cloud.md)"
        )
    if not code:
        reason = " (it cannot be reached, or its answers are lost)"
    other = " (AWS_ENDPOINT_URL for stores other than Amazon's)" if address.scheme == "s3" else ""
    return StoreError(
        f"{address}: the store does not do what we ask{reason}: check its address{other} and the network, then run the "
        "same command again; everything committed so far is safe"
    )


def _missing(address: Address) -> StoreError:
    kind = "container" if address.scheme == "az" else "bucket"
    return StoreError(f"{address}: there is no {kind} {address.bucket}: create it, or correct its name")
