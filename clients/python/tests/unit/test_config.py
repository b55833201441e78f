"""Argument over environment over config file."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.addresses import cases

from pausewatch import Address, AsyncClient, Client, Config, ConfigError, Tls


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text('address = "file:1"\nthread_id = "of-file"\ntoken = "of-file"\n')
    return path


def test_without_anything_it_is_the_default() -> None:
    assert Config.load(environ={}) == Config() == Config(Address.parse("127.0.0.1:7420"), deadline=5.0)


def test_an_argument_wins_over_the_environment_and_that_over_the_file(file: Path) -> None:
    file.write_text('address = "localhost:1"\nthread_id = "of-file"\ntoken = "of-file"\n')
    environ = {"PAUSEWATCH_CONFIG": str(file), "PAUSEWATCH_THREAD_ID": "of-env", "PAUSEWATCH_TOKEN": "of-env"}
    config = Config.load(token="of-argument", environ=environ)
    assert (str(config.address), config.thread_id, config.token) == ("localhost:1", "of-env", "of-argument")


def test_a_variable_that_is_empty_counts_as_not_set(file: Path) -> None:
    file.write_text('thread_id = "of-file"\n')
    environ = {"PAUSEWATCH_CONFIG": str(file), "PAUSEWATCH_THREAD_ID": "", "PAUSEWATCH_ADDRESS": ""}
    assert Config.load(environ=environ).thread_id == "of-file"
    file.write_text('address = ""\n')
    assert Config.load(environ=environ) == Config(), "nor does an address in the file that is empty"
    assert Config.load(environ={"PAUSEWATCH_CONFIG": "", "HOME": ""}) == Config()


def test_the_thread_is_its_own_variable_then_codex_then_claude_then_the_file(file: Path) -> None:
    file.write_text('thread_id = "of-file"\n')
    named = {"PAUSEWATCH_THREAD_ID": "own", "CODEX_THREAD_ID": "codex", "CLAUDE_CODE_SESSION_ID": "claude"}
    environ = {"PAUSEWATCH_CONFIG": str(file), **named}
    assert Config.load(thread_id="of-argument", environ=environ).thread_id == "of-argument"
    for name, value in named.items():
        assert Config.load(environ=environ).thread_id == value
        environ[name] = ""  # Counts as not set.
    assert Config.load(environ=environ).thread_id == "of-file"


def test_an_address_in_plain_text_has_nothing_of_what_is_for_tls(file: Path) -> None:
    of_file = 'thread_id = "t"\ntoken = "fleet"\n'
    for for_tls in ('address = "https://fleet:1"\n', 'tls_ca = "/ca"\n'):
        file.write_text(of_file + for_tls)
        environ = {"PAUSEWATCH_CONFIG": str(file), "PAUSEWATCH_ADDRESS": "unix:/p.sock"}
        for config in (
            Config.load(environ=environ),
            Config.load(address="127.0.0.1:1", environ={"PAUSEWATCH_CONFIG": str(file)}),
        ):
            assert (config.thread_id, config.token, config.tls) == ("t", None, Tls()), for_tls
        environ["PAUSEWATCH_TOKEN"] = "ours"
        assert Config.load(environ=environ).token == "ours", "what stands beside it is meant for it"
    config = Config.load(address="https://other:1", environ={"PAUSEWATCH_CONFIG": str(file)})
    assert (config.token, config.tls.ca) == ("fleet", Path("/ca")), "what goes over TLS stays"
    file.write_text(of_file)
    assert Config.load(address="127.0.0.1:1", environ={"PAUSEWATCH_CONFIG": str(file)}).token == "fleet"


def test_the_file_is_looked_for_in_its_usual_places(tmp_path: Path) -> None:
    for base in (".config", "xdg"):
        place = tmp_path / base / "pausewatch"
        place.mkdir(parents=True)
        (place / "config.toml").write_text(f'thread_id = "{base}"\n')
    home = {"HOME": str(tmp_path)}
    assert Config.load(environ=home).thread_id == ".config"
    assert Config.load(environ=home | {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}).thread_id == "xdg"
    assert Config.load(environ=home | {"XDG_CONFIG_HOME": "xdg"}).thread_id == ".config", "a relative one is ignored"
    assert Config.load(environ={"HOME": str(tmp_path / "nobody")}) == Config()


def test_the_part_of_the_server_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('thread_id = "t"\n[serve]\nlisten = [7]\n')
    assert Config.load(config_file=path, environ={}).thread_id == "t"


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config file .*missing\.toml: No such file"):
        Config.load(config_file=tmp_path / "missing.toml", environ={})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('adress = "h:1"', "unknown key 'adress'; known: address, thread_id, token, tls_ca, tls_cert, tls_key"),
        ("thread_id = 7", "thread_id must be a string"),
        ("= 7", "line 1"),
        ('address = "host"', "the port is missing"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        Config.load(config_file=path, environ={})
    assert why in str(error.value)


def test_tls_files_need_an_https_address() -> None:
    with pytest.raises(ConfigError, match="tls_ca is set, and the address 127.0.0.1:7420 is plain text: write https"):
        Config.load(environ={"PAUSEWATCH_TLS_CA": "ca.pem"})
    with pytest.raises(ConfigError, match="tls_cert is set, and the address"):
        Config.load(tls_cert="c.pem", tls_key="k.pem", environ={})
    loaded = Config.load(address="https://h", tls_ca="ca.pem", environ={})
    assert loaded.tls == Tls(ca=Path("ca.pem"))


def test_a_certificate_and_its_key_belong_together() -> None:
    with pytest.raises(ConfigError, match="tls_cert is set and tls_key is not"):
        Config.load(address="https://h", tls_cert="c.pem", environ={})
    with pytest.raises(ConfigError, match="tls_key is set and tls_cert is not"):
        Config.load(address="https://h", environ={"PAUSEWATCH_TLS_KEY": "k.pem"})


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_tls_file_that_cannot_be_read_is_named(client: type[Client | AsyncClient]) -> None:
    with pytest.raises(ConfigError, match=r"tls_ca nowhere\.pem: No such file"):
        client(Config(Address.parse("https://h"), tls=Tls(ca=Path("nowhere.pem"))))


def test_a_token_does_not_cross_a_network_in_plain_text() -> None:
    with pytest.raises(ConfigError, match="a token is set, and the address 10.0.0.1:1 is plain text") as error:
        Config.load(address="10.0.0.1:1", token="s3cret", environ={})
    assert "s3cret" not in str(error.value)
    for safe in ("127.0.0.1:1", "unix:/p", "https://10.0.0.1:1"):
        assert Config.load(address=safe, token="s3cret", environ={}).token == "s3cret"


@pytest.mark.parametrize("token", cases("token-accept"))
def test_a_token_that_every_language_takes_is_taken(token: str) -> None:
    assert Config(token=token).token == token


@pytest.mark.parametrize("token", ["", "a\nb", "ä", "trailing ", *cases("token-refuse")])
def test_a_token_of_other_characters_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config(token=token)
    assert not token or token not in str(error.value)


def test_a_token_is_in_no_repr() -> None:
    config = Config(token="s3cret")
    with Client(config) as client:
        assert "s3cret" not in repr((config, client, client._connection._spec))


@pytest.mark.parametrize("deadline", [0, -1, float("nan")])
def test_a_deadline_is_above_zero(deadline: float) -> None:
    with pytest.raises(ConfigError, match="must be above 0"):
        Config(deadline=deadline)
