import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.List;
import java.util.stream.IntStream;

import io.delta.storage.LogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Some threads that all try to commit every version of one log:
 * `java CommitRace.java STORE LOG THREADS VERSIONS NAME GO [MILLISECONDS]`.
 *
 * It says "ready", begins when the file GO is there, and prints "VERSION WRITER" for each commit that
 * its store took. A commit consists of its writer's name, many times over. With MILLISECONDS, the versions
 * begin at moments that far apart, counted from when GO was made: whoever lost one is in time for the next.
 */
class CommitRace {
    static final int LINES = 50;

    public static void main(String[] given) throws Exception {
        Configuration configuration = new Configuration();
        LogStore store =
            (LogStore) Class.forName(given[0]).getConstructor(Configuration.class).newInstance(configuration);
        int threads = Integer.parseInt(given[2]);
        int versions = Integer.parseInt(given[3]);
        // Loads all classes: the first commit of a process would otherwise come long after the other's.
        for (boolean overwrite : new boolean[] {true, false}) {
            Path warm = new Path(given[1], "warm-" + given[4] + "-" + overwrite);
            store.write(warm, List.of("warm").iterator(), overwrite, configuration);
        }
        System.out.println("ready");
        while (!Files.exists(Paths.get(given[5]))) {
            Thread.onSpinWait();
        }
        long begin = Files.getLastModifiedTime(Paths.get(given[5])).toMillis();
        long apart = given.length > 6 ? Long.parseLong(given[6]) : 0;
        Thread[] writers = IntStream.range(0, threads)
            .mapToObj(n -> given[4] + "-" + n)
            .map(name -> new Thread(() -> commit(store, given[1], versions, name, configuration, begin, apart)))
            .toArray(Thread[]::new);
        for (Thread writer : writers) {
            writer.start();
        }
        for (Thread writer : writers) {
            writer.join();
        }
    }

    static void commit(
            LogStore store, String log, int versions, String writer, Configuration configuration,
            long begin, long apart) {
        List<String> lines = java.util.Collections.nCopies(LINES, writer);
        for (int version = 0; version < versions; version++) {
            while (System.currentTimeMillis() < begin + (version + 1) * apart) {
                Thread.onSpinWait();
            }
            try {
                store.write(new Path(log, String.format("%020d.json", version)), lines.iterator(), false, configuration);
                System.out.println(version + " " + writer);
            } catch (FileAlreadyExistsException taken) {
                continue;
            } catch (Exception failed) {
                System.err.println(failed.getMessage());
                System.exit(1);
            }
        }
    }
}
