"""Serve an environment from a thread of this process, so that signals stay with whoever started it."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address

import uvicorn

from ...errors import ConfigError, OrchardError
from ..sandbox import Env
from .app import application
from .http import Http
from .service import Service, Settings

GRACE_S = 5  # for requests in flight when the server is told to stop
BACKLOG = 2048


@dataclass(frozen=True)
class Place:
    """Where to listen. Port 0: any free one."""

    host: str = "127.0.0.1"
    port: int = 0

    @property
    def loopback(self) -> bool:
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


def listen(place: Place, auth: bool) -> socket.socket:
    """The socket. Raises `ConfigError` if others could reach a server without keys, or the port is taken."""
    if not auth and not place.loopback:
        raise ConfigError(
            f"without keys nobody but this machine may be served, and {place.host} is not loopback",
            hint="leave --no-auth out, or --host",
        )
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((place.host, place.port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:  # the latter for a port that is none
        listener.close()
        raise ConfigError(
            f"cannot listen on {place.host}:{place.port}: {getattr(error, 'strerror', error)}",
            hint="--port 0 takes any free one",
        ) from error
    return listener


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def _opened(env: Env, settings: Settings) -> AsyncIterator[uvicorn.Server]:
    service = await Service.open(env, settings)
    try:
        config = uvicorn.Config(
            application(service),
            lifespan="off",
            http=Http,
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=120,
            ws_ping_timeout=None,  # who does not read for a while does not answer either, and is not gone for that
            timeout_graceful_shutdown=GRACE_S,
            h11_max_incomplete_event_size=65_536,
        )
        yield uvicorn.Server(config)
    finally:
        await service.close()


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


class _Thread(threading.Thread):
    def __init__(self, env: Env, settings: Settings, listener: socket.socket):
        super().__init__(name="orchard-env-serve", daemon=True)
        self._made = (env, settings)
        self._listener = listener
        self.started_or_failed = threading.Event()
        self.ended = threading.Event()  # an interrupted `join` takes a running thread for ended (bpo-45274)
        self.error: BaseException | None = None
        self.server: uvicorn.Server | None = None

    def run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - handed to whoever started us
            self.error = error
        finally:
            self.started_or_failed.set()
            self.ended.set()

    def wait(self) -> None:
        """Until it ended. In short waits: a signal that another thread received is acted upon between them only."""
        while not self.ended.wait(0.2):
            pass

    async def _serve(self) -> None:
        async with _opened(*self._made) as server:
            self.server = server
            serving = asyncio.create_task(server.serve(sockets=[self._listener]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.005)
            self.started_or_failed.set()
            await serving


@dataclass(frozen=True)
class Running:
    url: str
    wait: Callable[[], None]  # until the server ended by itself


@contextmanager
def serving(env: Env, settings: Settings, place: Place = Place()) -> Iterator[str]:
    """The address of a server that runs until the end of the block. Every sandbox is closed then."""
    with running(env, settings, listen(place, settings.auth)) as server:
        yield server.url


@contextmanager
def running(env: Env, settings: Settings, listener: socket.socket) -> Iterator[Running]:
    """As `serving`, on a socket from `listen`. Raises `ConfigError` if it cannot start."""
    thread = _Thread(env, settings, listener)
    thread.start()
    thread.started_or_failed.wait()
    try:
        if thread.error:
            raise thread.error if isinstance(thread.error, OrchardError) else ConfigError(str(thread.error))
        yield Running(address(listener), thread.wait)
    finally:
        if thread.server:
            thread.server.should_exit = True
        thread.wait()
        thread.join()
        listener.close()
    if thread.error:
        raise thread.error
