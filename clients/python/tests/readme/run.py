"""Runs one block, which may await."""

import ast
import asyncio
import faulthandler
import inspect
import sys
from pathlib import Path

from readme import prelude

faulthandler.dump_traceback_later(60, exit=True)
path = sys.argv[1]
names = {**vars(prelude), "__name__": "__main__", "print": prelude.print_until_known}
code = compile(Path(path).read_text("utf-8"), path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
is_async = bool(code.co_flags & inspect.CO_COROUTINE)


async def main() -> None:
    await eval(code, names)


asyncio.run(main()) if is_async else exec(code, names)
