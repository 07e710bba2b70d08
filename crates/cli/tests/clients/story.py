"""The whole scenario with the official Python client: list, start, read incrementally, wait, kill; then the server
is killed with SIGKILL, a new server lists the session, and recovery stops it.

Arguments: the program and a working directory. The client checks every response against the schema that the tool
declares; the assertions here check the rest.
"""

import asyncio
import json
import os
import signal
import sys

from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

PROGRAM, WORK = sys.argv[1:3]
TOOLS = {
    "execute_command", "manage_process", "start_session", "session", "wait_session",
    "list_sessions", "read_output", "stop_session", "recover",
}


def server(*flags):
    env = {name: os.environ[name] for name in os.environ if name.startswith(("SEXTON_", "XDG_", "HOME", "PATH"))}
    return StdioServerParameters(command=PROGRAM, args=["mcp", *flags], env=env, cwd=WORK)


async def call(client, tool, progress=None, **arguments):
    result = await client.call_tool(tool, arguments, progress_callback=progress)
    reply = result.structured_content
    assert reply["success"] is not result.is_error, reply
    if not reply["success"]:
        assert reply["error"] and reply["suggestion"], reply
    return reply


async def read_until(client, session, cursor, text):
    read = ""
    while text not in read:
        part = await call(client, "read_output", session=session, cursor=cursor)
        read, cursor = read + part["output"], part["cursor"]
        await asyncio.sleep(0.02)
    return read, cursor


async def first_server():
    async with stdio_client(server("--allow-run", "--allow-stop")) as (reading, writing):
        async with ClientSession(reading, writing) as client:
            hello = await client.initialize()
            assert hello.server_info.name == "sexton", hello
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == TOOLS, tools
            assert (await call(client, "list_sessions"))["sessions"] == []

            started = await call(client, "start_session", command="sh steps.sh", name="steps")
            steps = started["session"]["id"]
            text, cursor = await read_until(client, steps, started["cursor"], "one\n")
            assert text == "one\n", text
            assert (await call(client, "read_output", session=steps, cursor=cursor))["output"] == ""
            messages = []

            async def progress(done, total, message):
                messages.append(message)
                # The first progress message shows that the wait has started; let the script continue.
                open(os.path.join(WORK, "go"), "w").close()

            ended = await call(client, "wait_session", progress, session="steps", timeout=120)
            assert ended["ended"] and ended["session"]["exit_code"] == 3, ended
            assert messages and steps in messages[0], messages
            rest = await call(client, "read_output", session=steps, cursor=cursor)
            assert (rest["output"], rest["eof"]) == ("two\n", True), rest

            victim = (await call(client, "start_session", command=["sleep", "600"]))["session"]
            killed = await call(client, "manage_process", action="kill", pid=victim["pid"], signal="SIGKILL")
            assert killed["stopped"] and killed["session"]["id"] == victim["id"], killed
            assert (await call(client, "session", session=victim["id"]))["session"]["status"] == "stopped"

            refused = await call(client, "execute_command", command="true; true")
            assert not refused["success"], refused
            done = await call(client, "execute_command", command="echo done")
            assert done["stdout"] == "done\n", done

            left = (await call(client, "start_session", command="sleep 600", name="left"))["session"]["id"]
            read = await client.read_resource(f"session://{left}")
            owner = json.loads(read.contents[0].text)["owner"]["pid"]
            os.kill(owner, signal.SIGKILL)
            return left


async def next_server(left):
    async with Client(server("--allow-recover")) as client:
        seen = (await call(client, "session", session="left"))["session"]
        assert (seen["id"], seen["status"], seen["observed"]) == (left, "running", "alive"), seen
        plan = (await call(client, "recover"))["report"]
        assert plan["dry_run"] and plan["orphans"] == 1, plan
        assert (await call(client, "session", session=left))["session"]["observed"] == "alive"
        report = (await call(client, "recover", dry_run=False))["report"]
        assert report["orphans"] == 1 and report["ended"] == 1, report
        assert (await call(client, "session", session=left))["session"]["status"] == "orphaned"
        assert (await call(client, "list_sessions", which="running"))["sessions"] == []


async def scenario():
    left = await first_server()
    await next_server(left)
    print(left)


asyncio.run(scenario())
