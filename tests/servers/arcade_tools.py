"""Tools for arcade-mcp-server: run with `stdio`, or `http PORT`."""

import asyncio
import sys
from typing import Annotated

from arcade_mcp_server import Context, MCPApp
from arcade_mcp_server.types import ToolExecution

app = MCPApp(name="bakery", version="1.0.0")


@app.tool(execution=ToolExecution(taskSupport="optional"))
async def bake(context: Context, loaves: Annotated[int, "How many"]) -> Annotated[str, "What came out"]:
    """Bakes loaves."""
    for loaf in range(loaves):
        await context.progress.report(loaf, loaves)
        await asyncio.sleep(0.3)
    return f"{loaves} loaves"


@app.tool(execution=ToolExecution(taskSupport="required"))
async def burn(context: Context) -> Annotated[str, "Never comes"]:
    """Burns the bread."""
    await asyncio.sleep(0.5)
    raise ValueError("the bread is burnt")


if __name__ == "__main__":
    if sys.argv[1] == "http":
        app.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        app.run(transport="stdio")
