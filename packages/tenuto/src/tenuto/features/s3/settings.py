"""Settings of a store that is a bucket."""

import re
from typing import Annotated, Literal, get_args

from msgspec import Struct

from tenuto.config.addresses import is_origin
from tenuto.rules import Choice, Form, Number

Addressing = Literal["path", "virtual"]
_REGION = re.compile(r"[A-Za-z0-9-]{1,40}\Z")


def _is_region(text: str) -> bool:
    """Whether it can be the name of a region, or the word none."""
    return _REGION.match(text) is not None


class BucketSettings(Struct, frozen=True):
    """Settings of a store that is a bucket."""

    s3_endpoint: Annotated[
        str,
        Form("an address such as https://s3.example.com", is_origin),
        "the address of a store that is not Amazon's, such as `https://s3.example.com`",
    ] = "none"
    s3_region: Annotated[
        str,
        Form("the name of a region such as eu-central-1", _is_region),
        "its region; `none`: what `AWS_REGION` or `AWS_DEFAULT_REGION` say, or `us-east-1`",
    ] = "none"
    s3_addressing: Annotated[
        Addressing,
        Choice(get_args(Addressing)),
        "`path`: the bucket is part of the path; `virtual`: it is the first label of the host name, "
        "which `s3_endpoint` must then include",
    ] = "path"
    s3_ca_file: Annotated[
        str,
        Form("a text"),
        "a file of certificates (PEM) that are trusted for the store besides the system's",
    ] = "none"
    s3_timeout_s: Annotated[
        float, Number(0.5, 600), "{range}; the time limit of one request to the store: enough to upload 8 MiB"
    ] = 20.0
