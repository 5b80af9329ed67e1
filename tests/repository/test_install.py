"""Installing by uv with the configuration of pip."""

from __future__ import annotations

from tests.repository.wheels import load_install_script


def test_uv_is_given_the_sources_the_certificate_and_the_time_out_of_pip(repository):
    uv_configuration = load_install_script(repository).uv_configuration
    configured = """\
:env:.default-timeout='180'
:env:.find-links='/wheels'
global.cert='/certificates.crt'
global.disable-pip-version-check='1'
global.extra-index-url='\\nhttps://one.example/simple\\nhttps://two.example/simple'
global.find-links='/other'
install.no-compile='true'"""
    assert uv_configuration(configured) == (
        [
            "--index=https://one.example/simple",
            "--index=https://two.example/simple",
            "--find-links=/wheels",
        ],
        {"SSL_CERT_FILE": "/certificates.crt", "UV_HTTP_TIMEOUT": "180"},
    )
    assert uv_configuration("") == ([], {})
