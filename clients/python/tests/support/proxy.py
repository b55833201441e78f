"""A TCP proxy that resets connections in the middle of a call."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Self

_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Stands before `address`. While `resets` is above 0, the next answer of the server becomes a reset instead. While
    `answering` is not set, answers wait.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.resets = 0
        self.answering = threading.Event()
        self.answering.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._upstream)
                threading.Thread(target=self._copy, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._copy, args=(server, client, True), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError), source, sink:
            while data := source.recv(65_536):
                if answers and self.resets > 0:
                    self.resets -= 1
                    sink.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    # The other thread is within a recv of it, which would keep it open.
                    sink.shutdown(socket.SHUT_RD)
                    return
                if answers:
                    self.answering.wait()
                sink.sendall(data)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A plain close would leave the thread in its accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
