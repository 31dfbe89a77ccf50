"""What all tables are made of."""


def markdown(header, rows):
    out = [list(header), ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(r) + " |" for r in out)


def machine(env):
    return f"{env['cores']} cores of {env['cpu']}, load {env['load']}"
