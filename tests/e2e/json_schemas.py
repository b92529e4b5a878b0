"""JSON schemas made from a seed, as JSON-Schema-Test-Suite has them: every keyword that guides follow."""

import random

WORDS = ["name", "age", "tags", "city", "note", "kind", "size", "level", "owner", "items"]
PATTERNS = ["^[a-z]{2,6}$", "^[0-9]{4}-[0-9]{2}$", "^(red|green|blue)$", "^[A-Z][a-z]{1,8}$"]
FORMATS = ["date", "time", "ipv4", "uuid"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def schema(self):
        """A schema of a whole answer; most are of objects, as people ask for."""
        made = self.object(depth=0) if self.random.random() < 0.7 else self.any(depth=0)
        if self.random.random() < 0.2:
            made = {"$defs": {"part": self.any(depth=2)}, "type": "object", "additionalProperties": False,
                    "properties": {"one": {"$ref": "#/$defs/part"}, "rest": made}, "required": ["one", "rest"]}
        return made

    def any(self, depth):
        simple = [self.integer, self.number, self.string, self.word, self.constant, self.either]
        nested = [self.object, self.array, self.tuple, self.alternatives] if depth < 3 else []
        return self.random.choice(simple + nested)(depth + 1)

    def integer(self, _depth):
        low = self.random.randint(-50, 50)
        return self.some({"type": "integer"}, minimum=low, maximum=low + self.random.randint(0, 900))

    def number(self, _depth):
        low = self.random.randint(-9, 9)
        return {"type": "number", "minimum": low, "maximum": low + self.random.randint(1, 90)}

    def string(self, _depth):
        least = self.random.randint(0, 3)
        return {"type": "string", "minLength": least, "maxLength": least + self.random.randint(0, 8)}

    def word(self, _depth):
        if self.random.random() < 0.5:
            return {"type": "string", "pattern": self.random.choice(PATTERNS)}
        return {"type": "string", "format": self.random.choice(FORMATS)}

    def constant(self, _depth):
        values = [None, True, False, 0, -1.5, "ä \"quoted\"\n", "", [1, "a"], {"b": None}]
        return {"const": self.random.choice(values)}

    def either(self, _depth):
        return {"enum": self.random.sample(["yes", "no", 1, 2.5, None, True, "maybe so"], 3)}

    def array(self, depth):
        least = self.random.randint(0, 2)
        return {"type": "array", "items": self.any(depth), "minItems": least,
                "maxItems": least + self.random.randint(0, 2)}

    def tuple(self, depth):
        return {"type": "array", "prefixItems": [self.any(depth), self.any(depth)], "minItems": 2,
                "items": False}

    def alternatives(self, depth):
        return {"anyOf": [self.any(depth), {"type": ["boolean", "null"]}]}

    def object(self, depth):
        names = self.random.sample(WORDS, self.random.randint(1, 4))
        required = [name for name in names if self.random.random() < 0.7]
        return {"type": "object", "properties": {name: self.any(depth) for name in names},
                "required": required, "additionalProperties": False}

    def some(self, schema, **keywords):
        for key, value in keywords.items():
            if self.random.random() < 0.8:
                schema[key] = value
        return schema


def make(count, seed=0):
    """`count` schemas; the same ones for the same seed."""
    return [Maker(seed * 1000003 + i).schema() for i in range(count)]
