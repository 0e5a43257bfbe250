"""Where data in an object store is reached by Spark and by delta-rs: the one place that knows their options.

Who may read and write, where, and through which address is said in AWS's own variables, as to every other tool:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, or the role of the machine. Never as part of
Spark's configuration: that is on the command line of its process, for all to see.
"""

import os

ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
CREDENTIALS = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


def is_s3(uri: str) -> bool:
    return uri.startswith("s3a://")


def spark_config(home: str) -> dict[str, str]:
    """What a session needs for a home in S3; nothing for another one."""
    if not is_s3(home):
        return {}
    config = {
        # Commits that the store itself refuses when another process was first.
        "spark.delta.logStore.s3a.impl": "braid.S3Commits",
        # A checkpoint's file is uploaded under its name, or given up: no rename, which S3 lacks.
        "spark.sql.streaming.checkpointFileManagerClass": ABORTABLE,
        # The order in which all of AWS's tools look: variables, profile, web identity, container, machine.
        "spark.hadoop.fs.s3a.aws.credentials.provider": CREDENTIALS,
    }
    if region := os.environ.get("AWS_REGION"):
        config["spark.hadoop.fs.s3a.endpoint.region"] = region
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        config["spark.hadoop.fs.s3a.endpoint"] = endpoint
        # A store of one's own has one name, and not one for each bucket.
        config["spark.hadoop.fs.s3a.path.style.access"] = "true"
    return config


def delta_address(uri: str) -> str:
    """As delta-rs and Arrow know it: only Hadoop says s3a."""
    return f"s3://{uri.removeprefix('s3a://')}" if is_s3(uri) else uri


def hadoop_address(uri: str) -> str:
    """As Hadoop itself writes it, with one slash for a folder: to create a table, Delta wants one name for it."""
    return f"file:{uri.removeprefix('file://')}" if uri.startswith("file://") else uri


def delta_options(uri: str) -> dict[str, str] | None:
    """What delta-rs is told besides AWS's variables, which it reads itself."""
    if not is_s3(uri):
        return None
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {"AWS_ALLOW_HTTP": "true"} if plain else {}
