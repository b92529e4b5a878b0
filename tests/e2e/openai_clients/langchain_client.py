"""LangChain's ChatOpenAI against a server: langchain_client.py BASE_URL. Exits 0 if all is as it should be."""

import asyncio
import sys

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from openai import AuthenticationError

model = ChatOpenAI(model="demo", base_url=sys.argv[1], api_key="key-of-clients", temperature=0, seed=1,
                   max_retries=0, stream_usage=True)
messages = [SystemMessage("You are kind."), HumanMessage("List 5 animals.")]

whole = model.invoke(messages)
assert whole.content and whole.response_metadata["finish_reason"] == "stop", whole
assert whole.usage_metadata["output_tokens"] > 0

chunks = list(model.stream(messages))
assert "".join(chunk.content for chunk in chunks) == whole.content, chunks
used = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
assert used and used[-1]["output_tokens"] == whole.usage_metadata["output_tokens"], used

chain = ChatPromptTemplate.from_messages([("human", "List {n} fruits.")]) | model | StrOutputParser()
assert "".join(chain.stream({"n": 3})) == chain.invoke({"n": 3})

schema = {"title": "Place", "type": "object", "properties": {"side": {"enum": ["left", "right"]}},
          "required": ["side"], "additionalProperties": False}
placed = model.with_structured_output(schema, method="json_schema").invoke(messages)
assert placed["side"] in ("left", "right"), placed


async def asynchronous():
    return "".join([chunk.content async for chunk in model.astream(messages)])


assert asyncio.run(asynchronous()) == whole.content
assert len(model.batch(["List 3 fruits.", "List 4 fruits."])) == 2

try:
    ChatOpenAI(model="demo", base_url=sys.argv[1], api_key="key-of-nobody", max_retries=0).invoke(messages)
except AuthenticationError:
    pass
else:
    raise AssertionError("an unknown key was taken")
