"""Installing by uv with the configuration of pip."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(scope="module")
def install(repository):
    sys.path.insert(0, str(repository / "scripts"))
    try:
        import install
    finally:
        sys.path.pop(0)
    return install


def test_uv_is_given_the_sources_the_certificate_and_the_time_out_of_pip(install):
    configured = """\
:env:.default-timeout='180'
:env:.find-links='/wheels'
global.cert='/certificates.crt'
global.disable-pip-version-check='1'
global.extra-index-url='\\nhttps://one.example/simple\\nhttps://two.example/simple'
global.find-links='/other'
install.no-compile='true'"""
    assert install.uv_configuration(configured) == (
        [
            "--index=https://one.example/simple",
            "--index=https://two.example/simple",
            "--find-links=/wheels",
        ],
        {"SSL_CERT_FILE": "/certificates.crt", "UV_HTTP_TIMEOUT": "180"},
    )
    assert install.uv_configuration("") == ([], {})
