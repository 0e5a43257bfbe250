package braid;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/**
 * A plan that is used again over other files.
 *
 * Spark looks up every name and type of a query when it is put together. At the live edge the same query runs over new
 * files twice a second, and with many views that takes as long as the job itself.
 */
public final class KeptPlan {
    private KeptPlan() {}

    /** `kept`, which reads the files of `old`, over the files of `fresh`; both have the same columns. */
    public static Dataset<Row> over(Dataset<Row> kept, Dataset<Row> old, Dataset<Row> fresh) {
        LogicalRelation before = files(old);
        LogicalRelation now = files(fresh);
        LogicalPlan plan = kept.queryExecution().analyzed().transformUp(
            new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
                @Override
                public boolean isDefinedAt(LogicalPlan node) {
                    return node instanceof LogicalRelation && ((LogicalRelation) node).relation() == before.relation();
                }

                @Override
                public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
                    if (!isDefinedAt(node)) {
                        return otherwise.apply(node);
                    }
                    LogicalRelation known = (LogicalRelation) node;
                    @SuppressWarnings("unchecked")
                    B replaced = (B) known.copy(
                        now.relation(), known.output(), known.catalogTable(), known.isStreaming(), known.stream());
                    return replaced;
                }
            });
        plan.setAnalyzed();
        return Dataset.ofRows(kept.sparkSession(), plan);
    }

    private static LogicalRelation files(Dataset<Row> rows) {
        return (LogicalRelation) rows.queryExecution().analyzed().collectLeaves().head();
    }
}
