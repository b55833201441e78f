"""The coordinator for the tests of users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trustme

import pausewatch as pw
from pausewatch.testing import Coordinator, find_program


async def test_it_serves_while_its_block_runs() -> None:
    with Coordinator() as coordinator:
        with coordinator.client() as client, client.hold("t", ttl=5) as hold:
            assert hold.opened.count == 1
            async with coordinator.async_client(thread_id="t") as async_client:
                assert (await async_client.get_pause_state()).paused
    with coordinator.client(retries=0) as client, pytest.raises(pw.Unavailable):
        client.get_pause_state("t")


def test_it_restarts_at_the_same_address() -> None:
    coordinator = Coordinator("--max-pause", "1h")
    with pytest.raises(RuntimeError, match="call start"):
        coordinator.address  # noqa: B018
    with coordinator, coordinator.client() as client:
        address = coordinator.address
        client.increment_elicitation("t")
        with pytest.raises(RuntimeError, match="is running"):
            coordinator.start()
        coordinator.stop()
        coordinator.stop()
        coordinator.start()
        assert coordinator.address == address
        assert client.get_pause_state("t").count == 0


def test_it_restarts_with_tls(tmp_path: Path) -> None:
    ca = trustme.CA()
    issued = ca.issue_cert("127.0.0.1")
    cert, key, authority = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    ca.cert_pem.write_to_path(authority)
    with Coordinator("--tls-cert", str(cert), "--tls-key", str(key)) as coordinator:
        address = coordinator.address
        coordinator.stop()
        coordinator.start()
        assert coordinator.address == address
        with pw.Client.from_env(address=address, tls_ca=authority) as client:
            assert client.get_pause_state("t").count == 0


def test_a_failed_start_reports_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="--no-such-option"):
        Coordinator("--no-such-option").start()
    monkeypatch.delenv("PAUSEWATCH_PROGRAM")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError, match="PAUSEWATCH_PROGRAM"):
        find_program()


def test_it_ends_with_the_process_that_started_it() -> None:
    program = "from pausewatch.testing import Coordinator; c = Coordinator().start(); print(c.address)"
    src = str(Path(__file__).parents[2] / "src")
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, env=_environment(src))
    with pw.Client(pw.Config(pw.Address.parse(ended.stdout.strip()), retries=0)) as client, pytest.raises(pw.Unavailable):
        client.get_pause_state("t")


def _environment(src: str) -> dict[str, str]:
    return {"PYTHONPATH": src, "PAUSEWATCH_PROGRAM": find_program()}
