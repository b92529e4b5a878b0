"""buf's STANDARD lint rules over the protos, comments on every service, RPC and message, and what plugins of
other languages ask for.

Usage: proto_test.py PROTOC. The rules are re-stated here because buf is not a Debian package.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

import source_tree

PROTO_ROOT = source_tree.ROOT / "proto"
UPPER_SNAKE = re.compile(r"^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$")
LOWER_SNAKE = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
LOWER_CAMEL_KEY = re.compile(r'"([a-z]+[A-Z][A-Za-z]*)" *:')
PASCAL = re.compile(r"^[A-Z][A-Za-z0-9]*$")


def load(protoc):
    files = sorted(p.relative_to(PROTO_ROOT).as_posix() for p in PROTO_ROOT.glob("**/*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "set"
        subprocess.run([protoc, f"-I{PROTO_ROOT}", f"--descriptor_set_out={out}",
                        "--include_source_info", *files], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file


def upper_snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def check_enum(enum):
    prefix = upper_snake(enum.name) + "_"
    if not PASCAL.match(enum.name):
        yield f"enum {enum.name} is not PascalCase"
    if enum.value[0].number != 0 or enum.value[0].name != prefix + "UNSPECIFIED":
        yield f"the zero value of {enum.name} must be {prefix}UNSPECIFIED"
    for value in enum.value:
        if not value.name.startswith(prefix) or not UPPER_SNAKE.match(value.name):
            yield f"{value.name} must start with {prefix}"


def check_message(message):
    if not PASCAL.match(message.name):
        yield f"message {message.name} is not PascalCase"
    for field in message.field:
        if not LOWER_SNAKE.match(field.name):
            yield f"{message.name}.{field.name} is not lower_snake_case"
    for enum in message.enum_type:
        yield from check_enum(enum)
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from check_message(nested)


def check_services(file, used):
    for service in file.service:
        if not service.name.endswith("Service"):
            yield f"service {service.name} must end in Service"
        for method in service.method:
            for kind, name in (("Request", method.input_type), ("Response", method.output_type)):
                short = name.rsplit(".", 1)[-1]
                if short not in (method.name + kind, service.name + method.name + kind):
                    yield f"{method.name}: {short} must be {method.name}{kind}"
                if name in used:
                    yield f"{short} is used by two RPCs"
                used.add(name)


def check_comments(file):
    documented = {tuple(location.path) for location in file.source_code_info.location
                  if location.leading_comments.strip()}
    for index, service in enumerate(file.service):
        if len(file.service) and (6, index) not in documented and (2,) not in documented:
            yield f"service {service.name} has no comment"
    if (2,) not in documented:
        yield "the package line has no comment above it: say what the file is"


def check_file(file, used):
    folder = file.name.rsplit("/", 1)[0]
    if file.package.replace(".", "/") != folder:
        yield f"package {file.package} does not match the folder {folder}"
    if not re.search(r"\.v[1-9][0-9]*$", file.package):
        yield f"package {file.package} has no version"
    for enum in file.enum_type:
        yield from check_enum(enum)
    for message in file.message_type:
        yield from check_message(message)
    yield from check_services(file, used)
    yield from check_comments(file)


def check_languages(files):
    """What the plugins of Go and Java ask of every file."""
    go, outer_classes = {}, set()
    for file in files:
        options = file.options
        if not re.fullmatch(r"[a-z0-9._]+(/[a-z0-9._]+)+(;[a-z0-9]+)?", options.go_package):
            yield f"{file.name}: go_package is '{options.go_package}'; expected an import path"
        if go.setdefault(options.go_package, file.package) != file.package:
            yield f"{file.name}: go_package is that of another package, {go[options.go_package]}"
        if not options.java_package or not options.java_multiple_files:
            yield f"{file.name}: java_package or java_multiple_files is missing"
        outer = (options.java_package, options.java_outer_classname)
        if not re.fullmatch(r"[A-Z][A-Za-z]*Proto", outer[1]) or outer in outer_classes:
            yield f"{file.name}: java_outer_classname is '{outer[1]}'; expected one of its own that ends in Proto"
        outer_classes.add(outer)
        for message in file.message_type:
            yield from (f"{file.name}: {text}" for text in check_java_names(message))


def check_java_names(message):
    """Java's class has getXBytes() for each string x, so that a field x_bytes does not compile beside it."""
    strings = {field.name for field in message.field if field.type == field.TYPE_STRING}
    for field in message.field:
        if field.name.removesuffix("_bytes") in strings - {field.name}:
            yield f"{message.name}.{field.name} collides in Java with the bytes of the string beside it"
    for nested in message.nested_type:
        yield from check_java_names(nested)


def check_samples():
    """Samples name fields as the protos do: not every tool knows the other names over reflection."""
    pages = [source_tree.ROOT / "README.md", *source_tree.ROOT.glob("docs/*.md"), *PROTO_ROOT.glob("**/*.proto")]
    for page in sorted(pages):
        for key in LOWER_CAMEL_KEY.findall(page.read_text()):
            yield f"{page.relative_to(source_tree.ROOT)}: a sample has the key {key}; write it in lower_snake_case"


def main():
    used = set()
    files = load(sys.argv[1])
    ours = [file for file in files if file.name.startswith("baton/")]  # the others keep to the rules of their authors
    failures = [f"{file.name}: {text}" for file in ours for text in check_file(file, used)]
    failures += check_languages(files)
    failures += check_samples()
    print("\n".join(failures) or f"{len(files)} protos meet the rules")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
