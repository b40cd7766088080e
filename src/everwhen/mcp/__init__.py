"""The MCP server: tools, resources and a prompt for models; each is one or a few REST calls with the caller's token.

There are no rules here: what a token may do, REST decides. What is here is for models: flat arguments, a preview before
anything is created, answers that can be read aloud, and errors that say what to do instead.

Only `server`, `http` and `stdio` import the package `mcp`, which takes a second: nothing of a node does, unless
`api.mcp` is true.
"""
