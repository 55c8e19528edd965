"""Puts into and gets from a stream of a component under test."""

__all__ = ["get", "put"]


async def put(ctx, stream, payload):
    """Offers `payload` until it is taken."""
    ctx.set(stream.p, payload)
    ctx.set(stream.valid, 1)
    await ctx.tick().until(stream.ready)
    ctx.set(stream.valid, 0)


async def get(ctx, stream):
    """Takes the next payload."""
    ctx.set(stream.ready, 1)
    (payload,) = await ctx.tick().sample(stream.p).until(stream.valid)
    ctx.set(stream.ready, 0)
    return payload
