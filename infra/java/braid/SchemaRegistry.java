package braid;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.avro.Schema;
import org.apache.spark.TaskContext;

/** The schemas of a registry by their ids, asked for once in each process; a schema never changes under its id. */
final class SchemaRegistry {
    /** A schema, or why there is none. */
    record Found(Schema schema, String reason, long until) { }

    /** What a task is told of who we are, "user:password": it is in no configuration and in no plan. */
    private static final String WHO = "braid.registry.secret.";
    private static final Map<String, SchemaRegistry> KNOWN = new ConcurrentHashMap<>();
    private static final ObjectMapper JSON = new ObjectMapper();
    /** An id that is unknown may be known soon, and a million records with it are not a million questions. */
    private static final long UNKNOWN_FOR = Duration.ofSeconds(5).toNanos();
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final HttpClient client = HttpClient.newBuilder().connectTimeout(PATIENCE).build();
    private final Map<Integer, Found> found = new ConcurrentHashMap<>();
    private final String name;
    private final String address;

    private SchemaRegistry(String name, String address) {
        this.name = name;
        this.address = address;
    }

    static SchemaRegistry of(String name, String address) {
        return KNOWN.computeIfAbsent(name + " " + address, key -> new SchemaRegistry(name, address));
    }

    Found schema(int id) throws IOException, InterruptedException {
        Found known = found.get(id);
        if (known != null && (known.schema() != null || System.nanoTime() < known.until())) {
            return known;
        }
        synchronized (this) {
            Found meanwhile = found.get(id);
            if (meanwhile != known) {
                return meanwhile;
            }
            Found asked = ask(id);
            found.put(id, asked);
            return asked;
        }
    }

    private Found ask(int id) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(address + "/schemas/ids/" + id)).timeout(PATIENCE);
        TaskContext task = TaskContext.get();
        String who = task == null ? null : task.getLocalProperty(WHO + name);
        if (who != null) {
            String encoded = Base64.getEncoder().encodeToString(who.getBytes(StandardCharsets.UTF_8));
            request.header("Authorization", "Basic " + encoded);
        }
        HttpResponse<String> answer;
        try {
            answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException away) {
            throw new IOException("the schema registry '" + name + "' does not answer: " + away, away);
        }
        if (answer.statusCode() == 404) {
            return none("unknown schema: the registry '" + name + "' has none with the id " + id);
        }
        if (answer.statusCode() != 200) {
            throw new IOException("the schema registry '" + name + "' answers " + answer.statusCode() + " for schema " + id);
        }
        return read(id, JSON.readTree(answer.body()));
    }

    private static Found read(int id, JsonNode said) {
        String type = said.path("schemaType").asText("AVRO");
        if (!type.equals("AVRO")) {
            return none("unknown schema: " + id + " is of type " + type + ", and not Avro");
        }
        try {
            return new Found(new Schema.Parser().parse(said.path("schema").asText()), null, 0);
        } catch (RuntimeException strange) {
            return none("unknown schema: " + id + " cannot be read (" + strange.getClass().getSimpleName() + ")");
        }
    }

    private static Found none(String reason) {
        return new Found(null, reason, System.nanoTime() + UNKNOWN_FOR);
    }
}
