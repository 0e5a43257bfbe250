#!/bin/sh
# What a container does: the `braid` command that it is given, or what Spark on Kubernetes asks of an image by its
# first word, a driver or an executor.
set -eu

case "${1:-}" in
driver)
    shift
    # Spark's own start of a driver in a pod; what follows names Braid's program and its command.
    exec spark-submit --deploy-mode client --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    # The options of its JVM come as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, and so on: each is one word, whatever is in it.
    set --
    number=0
    while eval "test -n \"\${SPARK_JAVA_OPT_$number+set}\""; do
        eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$number\""
        number=$((number + 1))
    done
    exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-/opt/spark/conf}:${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
master | worker)
    role=$1
    shift
    # A standalone cluster: `master`, or `worker spark://HOST:7077`.
    class=$(printf '%s' "$role" | sed 's/m/M/;s/w/W/')
    exec spark-class "org.apache.spark.deploy.$role.$class" "$@"
    ;;
airflow)
    if [ "${2:-}" = standalone ]; then
        airflow db migrate
        # Tasks wait for this pool: one Spark at a time, unless a person has said otherwise.
        airflow pools get spark >/dev/null 2>&1 || airflow pools set spark 1 "Spark applications at the same time"
    fi
    exec "$@"
    ;;
bash | sh | python | python3)
    # Airflow's chart starts its parts by a shell.
    exec "$@"
    ;;
*)
    exec braid "$@"
    ;;
esac
