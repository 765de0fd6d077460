"""Is it the same topic? A name may be deleted and used again; the number that the register gave it may not.

Offsets are places in one topic and mean nothing in another of the same name. Folders of replicas carry the number, and
so does an archive. Clients see it as the topic's id, sixteen bytes, in metadata of newer versions.
"""

from __future__ import annotations

from kio.schema.metadata.v10.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v10.response import MetadataResponse
from kio.schema.types import TopicName

from octoloom.runtime.log_client import ASK_S, LogClient
from octoloom.runtime.log_errors import error_of
from octoloom.wire.kafka import cold
from octoloom.wire.kafka.errors import ErrorCode


async def topic_number(client: LogClient, name: str) -> int:
    """The number of the topic of this name. Raises what the brokers say if there is none."""
    topic = MetadataRequestTopic(topic_id=None, name=TopicName(name))
    request = MetadataRequest(
        topics=(topic,),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )

    def encode(correlation: int, client_id: str) -> bytes:
        return cold.encode_request(request, correlation, client_id)

    def parse(frame: memoryview) -> MetadataResponse:
        answer = cold.decode_response(request.__api_key__, request.__version__, frame)
        assert isinstance(answer, MetadataResponse)
        return answer

    async def attempt(_stale: int | None) -> int:
        await client.cluster.find_brokers()
        answer = await client.cluster.ask_any(
            lambda broker: broker.ask_as(request.__api_key__, request.__version__, encode, parse), ASK_S
        )
        for found in answer.topics:
            if found.error_code:
                raise error_of(int(found.error_code), f"the topic {name}")
            if found.topic_id is not None:
                # The id is the number and one: no id is all zero.
                return found.topic_id.int - 1
        raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {name}")

    return await client.patiently(attempt, None)
