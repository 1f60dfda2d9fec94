"""Tools for FastMCP: run with `stdio`, or `http PORT`."""

import asyncio
import sys
from dataclasses import dataclass

from fastmcp import Context, FastMCP
from fastmcp.server.dependencies import Progress
from fastmcp.server.tasks import TaskConfig

mcp = FastMCP("bakery")


@dataclass
class Salt:
    grams: int


@mcp.tool(task=True)
async def bake(loaves: int, progress: Progress = Progress()) -> str:
    """Bakes loaves."""
    await progress.set_total(loaves)
    for _ in range(loaves):
        await asyncio.sleep(0.3)
        await progress.increment()
    return f"{loaves} loaves"


@mcp.tool(task=TaskConfig(mode="required"))
async def burn() -> str:
    """Burns the bread."""
    await asyncio.sleep(0.5)
    raise ValueError("the bread is burnt")


@mcp.tool(task=True)
async def season(ctx: Context) -> str:
    """Asks for salt."""
    answer = await ctx.elicit("How much salt?", response_type=Salt)
    return f"{answer.data.grams} g of salt" if answer.action == "accept" else "no salt"


@mcp.tool
def greet(name: str) -> str:
    """A plain tool."""
    return f"Good morning, {name}"


if __name__ == "__main__":
    if sys.argv[1] == "http":
        mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        mcp.run(transport="stdio")
