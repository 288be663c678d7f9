"""The structs and constants of the package are those of holdfast.h: a C program prints them.

The environment: HOLDFAST_CC is the C compiler, HOLDFAST_SOURCE_DIR the source.
"""

import ctypes
import os
import re
import subprocess
import tempfile
import unittest

import holdfast
from holdfast import _errors, _library

SOURCE = os.environ["HOLDFAST_SOURCE_DIR"]
HEADER = os.path.join(SOURCE, "include/holdfast/holdfast.h")

STRUCTS = {
    "hf_options": _library.HfOptions,
    "hf_lock_options": _library.HfLockOptions,
    "hf_hold": _library.HfHold,
    "hf_event": _library.HfEvent,
    "hf_reason": _library.HfReason,
}
CONSTANTS = {
    "HF_EXCLUSIVE": _library.EXCLUSIVE,
    "HF_SHARED": _library.SHARED,
    "HF_BARGING": _library.BARGING,
    "HF_SEQUENCER_MAX": _library.SEQUENCER_MAX,
    "HF_FOREVER": _library.FOREVER,
    "HF_NO_LOCK_DELAY": _library.NO_LOCK_DELAY,
}


def header() -> str:
    """The header without its comments."""
    with open(HEADER) as file:
        return re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.DOTALL)


def enum_names(name: str) -> list[str]:
    body = re.search(rf"enum {name} \{{(.*?)\}};", header(), re.DOTALL)
    assert body is not None, name
    return re.findall(r"\b(HF_[A-Z_]+)\b", body[1])


def struct_members(name: str) -> list[str]:
    body = re.search(rf"struct {name} \{{(.*?)\}};", header(), re.DOTALL)
    assert body is not None, name
    return re.findall(r"(\w+)(?:\[\d+\])?;", body[1])


def c_values(expressions: list[str]) -> dict[str, int]:
    """What a C program that includes the header prints for each expression."""
    lines = "".join(f'    printf("%lld\\n", (long long)({text}));\n' for text in expressions)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "layout.c")
        with open(source, "w") as file:
            file.write(
                "#include <holdfast/holdfast.h>\n#include <stddef.h>\n#include <stdio.h>\n"
                f"int main(void)\n{{\n{lines}    return 0;\n}}\n"
            )
        program = os.path.join(folder, "layout")
        include = os.path.join(SOURCE, "include")
        compiler = os.environ["HOLDFAST_CC"]
        subprocess.run([compiler, "-I", include, source, "-o", program], check=True)
        printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return dict(zip(expressions, map(int, printed.split()), strict=True))


class Layout(unittest.TestCase):
    def test_structs(self) -> None:
        expected: dict[str, int] = {}
        for name, struct in STRUCTS.items():
            fields = [field[0] for field in struct._fields_]
            self.assertEqual(fields, struct_members(name), name)
            expected[f"sizeof(struct {name})"] = ctypes.sizeof(struct)
            for field in fields:
                member = getattr(struct, field)
                expected[f"offsetof(struct {name}, {field})"] = member.offset
                expected[f"sizeof(((struct {name} *)0)->{field})"] = member.size
        self.assertEqual(c_values(list(expected)), expected)

    def test_signs(self) -> None:
        """Each integer has the sign that it has in C."""
        expected: dict[str, int] = {}
        for name, struct in STRUCTS.items():
            for field, kind, *_ in struct._fields_:
                if issubclass(kind, ctypes._SimpleCData) and kind._type_ in "bhilqBHILQ":
                    text = f"(__typeof__(((struct {name} *)0)->{field}))-1 < 0"
                    is_enum = field in ("kind", "why") and kind is ctypes.c_int
                    if not is_enum:  # the sign of a C enum is the compiler's choice
                        expected[text] = int(kind._type_ in "bhilq")
        self.assertGreater(len(expected), 15)
        self.assertEqual(c_values(list(expected)), expected)

    def test_constants(self) -> None:
        self.assertEqual(c_values(list(CONSTANTS)), CONSTANTS)

    def test_every_error_has_its_class(self) -> None:
        names = enum_names("hf_error")
        self.assertGreater(len(names), 15)
        numbers = c_values(names)
        self.assertEqual(sorted(numbers.values()), sorted(_errors.CLASSES))
        for name, number in numbers.items():
            cls = _errors.CLASSES[number]
            self.assertTrue(issubclass(cls, holdfast.Error))
            self.assertIs(getattr(holdfast, cls.__name__), cls)
            # the docstring begins with the code, unless the class is used for more codes
            if cls is not holdfast.InvalidArgument:
                self.assertTrue((cls.__doc__ or "").startswith(name), (name, cls))

    def test_kinds(self) -> None:
        for enum, prefix, kinds in (
            ("hf_event_kind", "HF_EVENT_", holdfast.EventKind),
            ("hf_reason_kind", "HF_WHY_", holdfast.ReasonKind),
        ):
            numbers = c_values(enum_names(enum))
            self.assertEqual(numbers, {prefix + kind.name: kind.value for kind in kinds})

    def test_unknown_numbers(self) -> None:
        """A later version of the library may have more kinds and errors."""
        self.assertEqual(_errors.reason_kind(99), 99)
        error = _errors.failure(-99, "lock 'x'")
        self.assertEqual((type(error), error.code), (holdfast.Error, -99))

    def test_texts(self) -> None:
        """Other users' bytes do not reach a terminal as they are."""
        text = "a\x1b[2J\n\u202e\xe9".encode() + b"\xff"
        self.assertEqual(_errors.printable(text), "a?[2J??\xe9\ufffd")

    def test_version(self) -> None:
        self.assertRegex(holdfast.version(), r"^\d+\.\d+\.\d+")
        with open(os.path.join(SOURCE, "CMakeLists.txt")) as file:
            found = re.search(r"project\(holdfast VERSION (\S+)", file.read())
        assert found is not None
        self.assertEqual(holdfast.version(), found[1])


if __name__ == "__main__":
    unittest.main()
