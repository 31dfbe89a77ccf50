"""Kernels taken out of a file of a checkout by name, with what they need of it, so that no package has to be installed or imported."""

import ast
import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path

HEADER = "import torch\nimport triton\nimport triton.language as tl\n"


def definitions(tree):
    """What a module defines: name -> node, functions, simple constants and what it imports of Triton; of other modules nothing is known."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [a for a in node.names if (a.asname or a.name) not in found]
            if (node.module or "").startswith("triton"):
                names = [a for a in names if there(node.module, a.name)]
                found.update((a.asname or a.name, ast.ImportFrom(node.module, [a], 0)) for a in names)
            elif node.level:
                found.update((a.asname or a.name, ast.parse(f"{a.asname or a.name} = None").body[0]) for a in names)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and simple(node.value):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and target.id not in found:
                    found[target.id] = node
    return found


def there(package, name):
    """Whether the installed Triton has it."""
    try:
        return hasattr(importlib.import_module(package), name)
    except ImportError:
        return False


def simple(value):
    """Whether it is a constant."""
    return isinstance(value, ast.Constant | ast.UnaryOp) or (isinstance(value, ast.Call) and ast.unparse(value.func) == "tl.constexpr")


def source(path, name):
    """The text of a module with that kernel, the functions that it calls and the constants that it reads, under ``triton.jit`` alone."""
    known = definitions(ast.parse(Path(path).read_text()))
    if name not in known:
        raise KeyError(f"{path} has no {name}")
    wanted, todo = {}, [name]
    while todo:
        n = todo.pop()
        if n in wanted or n not in known:
            continue
        wanted[n] = node = known[n]
        todo += [x.id for x in ast.walk(node) if isinstance(x, ast.Name) and x.id != n]
    parts = []
    for n, node in known.items():
        if n not in wanted:
            continue
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [ast.parse("triton.jit", mode="eval").body]
        parts.append(ast.unparse(node))
    return HEADER + "\n\n".join(dict.fromkeys(parts)) + "\n"


def module(path, name, folder):
    """That module, imported from a file in ``folder``: Triton reads the source of what it compiles."""
    text = source(path, name)
    key = f"taken_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if key not in sys.modules:
        file = Path(folder, f"{key}.py")
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(key, file)
        sys.modules[key] = made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
    return sys.modules[key]
